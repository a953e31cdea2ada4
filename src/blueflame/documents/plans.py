"""Plans and task files: what planners answer and people write, read strictly; how tasks stand, written for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from blueflame.documents.yaml import Located, Place, Problem, read_located
from blueflame.documents.yaml_writer import Value, block, item
from blueflame.model.errors import PlanError, WorldError
from blueflame.model.ids import is_task_id
from blueflame.model.task import HistoryEntry, Task, TaskRecord
from blueflame.system.files import read_text

SCHEMA_VERSION = 1
TOLD = 100  # a plan of thousands of tasks that are all wrong in one way needs no more to be understood
_TOP = ("schema_version", "session_id", "wave_cycle", "tasks", "version", "wave")
_STANDING = ("status", "agent_id", "worktree", "branch", "retry_count", "result", "history")
"""What a task file says about how a task stands. The journal knows better, so it is not read back."""


@dataclass(frozen=True, slots=True)
class _Field:
    fits: Callable[[Any], bool]
    expected: str
    required: bool = False
    make: Callable[[Any], Any] = lambda value: value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(_is_text(entry) for entry in value)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and is_task_id(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_minutes(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


_FIELDS: Mapping[str, _Field] = {
    "id": _Field(_is_id, "task- and a number, like task-001", required=True),
    "title": _Field(_is_text, "a text", required=True),
    "description": _Field(_is_text, "a text", required=True),
    "priority": _Field(_is_integer, "an integer, 1 for the highest", required=True),
    "cohesion_group": _Field(_is_text, "a text"),
    "dependencies": _Field(_is_texts, "a list of task ids", make=tuple),
    "file_locks": _Field(_is_texts, "a list of paths", required=True, make=tuple),
    "model": _Field(_is_text, "a text"),
    "validator_model": _Field(_is_text, "a text"),
    "estimate_minutes": _Field(_is_minutes, "a number of minutes", make=float),
}
_KNOWN = (*_FIELDS, *_STANDING)


def read_plan(path: Path) -> tuple[Task, ...]:
    """From a planner's JSON, a tasks.yaml or its older form. Every problem is told at once, with its line if known."""
    try:
        text = read_text(path, "the plan")
    except WorldError as error:
        raise PlanError(f"the plan {path} cannot be read:", [str(error)]) from error
    found = read_located(text, only_json=path.suffix == ".json")
    unread = found.problems and found.data is None
    problems = [*found.problems, *(() if unread else _file_problems(found.data))]
    if problems:
        told = [_placed(path, found, problem) for problem in problems[:TOLD]]
        raise PlanError(f"the plan {path} cannot be used:", [*told, *_untold(problems)])
    return _tasks(found.data)


def tasks_from(data: object) -> tuple[Task, ...]:
    """From a planner's answer. Keys that we do not know are passed over; `ignored_keys` names them."""
    problems = list(_plan_problems(data))
    if problems:
        told = [_said(problem) for problem in problems[:TOLD]]
        raise PlanError("the plan cannot be used:", [*told, *_untold(problems)])
    return _tasks(data)


def ignored_keys(data: object) -> tuple[str, ...]:
    """A warning for each key of a planner's answer that means nothing to us."""
    return tuple(_said(problem) for problem in _unknown_keys(data))


def dump_tasks(session_id: str, cycle: int, records: Iterable[TaskRecord]) -> str:
    """tasks.yaml: how every task stands. `read_plan` gives the same tasks back."""
    head = block({"schema_version": SCHEMA_VERSION, "session_id": session_id, "wave_cycle": cycle})
    return (
        "# written by Blue Flame from its journal; what is changed here is overwritten\n"
        + head
        + _list(_standing_yaml(record) for record in records)
    )


def dump_plan(tasks: Iterable[Task]) -> str:
    """Only what a person may change: for editing a plan."""
    return block({"schema_version": SCHEMA_VERSION}) + _list(item(_asked(task), "  ") for task in tasks)


def _list(entries: Iterable[str]) -> str:
    listed = "".join(entries)
    return f"tasks:\n{listed}" if listed else "tasks: []\n"


# after an event one record in thousands has changed; the others keep their text
@lru_cache(maxsize=16_384)
def _standing_yaml(record: TaskRecord) -> str:
    return item(_standing(record), "  ")


def _asked(task: Task) -> dict[str, Value]:
    optional = {
        "model": task.model,
        "validator_model": task.validator_model,
        "estimate_minutes": task.estimate_minutes,
    }
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "priority": task.priority,
        "cohesion_group": task.cohesion_group,
        "dependencies": task.dependencies,
        "file_locks": task.file_locks,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _standing(record: TaskRecord) -> dict[str, Value]:
    return {
        **_asked(record.task),
        "status": record.state.value,
        "agent_id": record.agent_id,
        "worktree": record.worktree,
        "branch": record.branch,
        "retry_count": record.retries,
        "result": {"status": record.verdict, "notes": record.verdict_notes},
        "history": [_told(entry) for entry in record.history],
    }


def _told(entry: HistoryEntry) -> dict[str, Value]:
    return {
        "attempt": entry.attempt,
        "agent_id": entry.agent_id,
        "timestamp": datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "result": entry.result.value,
        "notes": entry.notes,
        "rejection_reason": entry.rejection_reason,
        "cost_usd": entry.cost_usd,
        "tokens_used": entry.tokens_used,
    }


def _tasks(data: object) -> tuple[Task, ...]:
    """Of data without problems."""
    assert isinstance(data, Mapping)
    return tuple(_task(entry) for entry in data["tasks"])


def _task(entry: Mapping[str, Any]) -> Task:
    given = {name: field.make(entry[name]) for name, field in _FIELDS.items() if entry.get(name) is not None}
    return Task(**{"description": given["title"], **given})


def _file_problems(data: object) -> Iterator[Problem]:
    yield from _plan_problems(data)
    yield from _version_problems(data)
    yield from _unknown_keys(data)


def _version_problems(data: object) -> Iterator[Problem]:
    for key in ("schema_version", "version"):
        if isinstance(data, Mapping) and key in data and (data[key] != SCHEMA_VERSION or data[key] is True):
            yield Problem(
                (key,), f"{key} must be {SCHEMA_VERSION}, not {_shown(data[key])}: a newer Blue Flame wrote it?"
            )


def _plan_problems(data: object) -> Iterator[Problem]:
    if not isinstance(data, Mapping):
        yield Problem((), f"expected an object with a list of tasks, not {_shown(data)}")
    elif not isinstance(data.get("tasks"), Sequence) or isinstance(data["tasks"], str):
        found = _shown(data["tasks"]) if "tasks" in data else "nothing"
        yield Problem(("tasks",), f"tasks must be a list, not {found}")
    else:
        for n, entry in enumerate(data["tasks"]):
            yield from _task_problems(entry, ("tasks", n), older="version" in data)


def _task_problems(entry: object, place: Place, *, older: bool) -> Iterator[Problem]:
    if not isinstance(entry, Mapping):
        yield Problem(place, f"a task must be an object, not {_shown(entry)}")
        return
    for name, field in _FIELDS.items():
        value = entry.get(name)
        if value is None:
            # the older form has tasks with a title only
            if field.required and not (older and name == "description"):
                yield Problem((*place, name), f"{_called(entry)}{name} is missing: give {field.expected}")
        elif not field.fits(value):
            yield Problem((*place, name), f"{_called(entry)}{name} must be {field.expected}, not {_shown(value)}")


def _unknown_keys(data: object) -> Iterator[Problem]:
    if not isinstance(data, Mapping):
        return
    yield from (Problem((key,), _unknown(key, _TOP)) for key in data if key not in _TOP)
    for n, entry in enumerate(data["tasks"] if isinstance(data.get("tasks"), list | tuple) else ()):
        for key in entry if isinstance(entry, Mapping) else ():
            if key not in _KNOWN:
                yield Problem(("tasks", n, key), _called(entry) + _unknown(key, _KNOWN))


def _unknown(key: object, known: Sequence[str]) -> str:
    close = get_close_matches(str(key), known, n=1)
    return f"unknown key {key!r}" + (f"; did you mean {close[0]}?" if close else "")


def _called(entry: Mapping[str, Any]) -> str:
    return f"{entry['id']}: " if _is_id(entry.get("id")) else ""


_KINDS = {
    bool: "the boolean",
    int: "the integer",
    float: "the number",
    str: "the text",
    dict: "an object",
    list: "a list",
}


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return f"{_KINDS.get(type(value), type(value).__name__)} {text if len(text) <= 60 else text[:57] + '...'}"


def _untold(problems: Sequence[Problem]) -> list[str]:
    return [f"and {len(problems) - TOLD} more"] if len(problems) > TOLD else []


def _placed(path: Path, found: Located, problem: Problem) -> str:
    line = found.line(problem.place)
    return f"{path}:{line}: {problem.message}" if line else f"{path}: {_said(problem)}"


def _said(problem: Problem) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.place[:2]).lstrip(".")
    return f"{where}: {problem.message}" if len(problem.place) > 1 else problem.message
