"""Plans and task files: parsed strictly from planners and people; written with each task's status for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from blueflame.documents.yaml import (
    Document,
    KeyPath,
    YamlProblem,
    YamlValue,
    format_item,
    format_mapping,
    read_document,
)
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import PlanError, WorldError
from blueflame.model.ids import is_task_id
from blueflame.model.suggestions import suggest
from blueflame.model.task import HistoryEntry, Task, TaskRecord, dump_task
from blueflame.system.files import read_text

SCHEMA_VERSION = 1
MAX_PROBLEMS = 100  # a plan may have thousands of tasks with the same problem
_TOP_KEYS = ("schema_version", "session_id", "wave_cycle", "tasks", "version", "wave")
_STATUS_KEYS = ("status", "agent_id", "worktree", "branch", "retry_count", "result", "history")
"""The status of a task in a task file. It is not read back: the journal has it."""


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
    "title": _Field(_is_text, "a text that is not empty", required=True),
    "description": _Field(_is_text, "a text that is not empty", required=True),
    "priority": _Field(_is_integer, "an integer, 1 for the highest", required=True),
    "cohesion_group": _Field(_is_text, "a text that is not empty"),
    "dependencies": _Field(_is_texts, "a list of task ids", make=tuple),
    "file_locks": _Field(_is_texts, "a list of paths", required=True, make=tuple),
    "model": _Field(_is_text, "a text that is not empty"),
    "validator_model": _Field(_is_text, "a text that is not empty"),
    "workflow": _Field(_is_text, "the name of a workflow"),
    "estimate_minutes": _Field(_is_minutes, "a number of minutes", make=float),
}
_KNOWN = (*_FIELDS, *_STATUS_KEYS)


def read_plan(path: Path) -> tuple[Task, ...]:
    """Read a planner's JSON, a tasks.yaml or its older form. Raises PlanError with all problems and their lines."""
    try:
        text = read_text(path, "the plan")
    except WorldError as error:
        raise PlanError(f"the plan {path} cannot be read:", [str(error)]) from error
    found = read_document(text, only_json=path.suffix == ".json")
    unread = found.problems and found.data is None
    problems = [*found.problems, *(() if unread else _find_file_problems(found.data))]
    if problems:
        lines = [_format_with_line(path, found, problem) for problem in problems[:MAX_PROBLEMS]]
        raise PlanError(f"the plan {path} cannot be used:", [*lines, *_format_rest(problems)])
    return _build_tasks(found.data)


def parse_tasks(data: object) -> tuple[Task, ...]:
    """Read the tasks from a planner's answer. Unknown keys are ignored; `list_ignored_keys` names them."""
    problems = list(_find_plan_problems(data))
    if problems:
        lines = [_format_problem(problem) for problem in problems[:MAX_PROBLEMS]]
        raise PlanError("the plan cannot be used:", [*lines, *_format_rest(problems)])
    return _build_tasks(data)


def list_ignored_keys(data: object) -> tuple[str, ...]:
    """Return a warning for each unknown key of a planner's answer."""
    return tuple(_format_problem(problem) for problem in _find_unknown_keys(data))


def format_tasks_file(session_id: str, cycle: int, records: Iterable[TaskRecord]) -> str:
    """Format tasks.yaml: every task with its status. `read_plan` reads the same tasks from it."""
    head = format_mapping({"schema_version": SCHEMA_VERSION, "session_id": session_id, "wave_cycle": cycle})
    return head + _format_list(_format_record(record) for record in records)


def format_plan(tasks: Iterable[Task]) -> str:
    """Format only what a person may change: for editing a plan."""
    return format_mapping({"schema_version": SCHEMA_VERSION}) + _format_list(
        format_item(_build_task_fields(task), "  ") for task in tasks
    )


def _format_list(entries: Iterable[str]) -> str:
    listed = "".join(entries)
    return f"tasks:\n{listed}" if listed else "tasks: []\n"


# cached: an event changes one record of thousands
@lru_cache(maxsize=16_384)
def _format_record(record: TaskRecord) -> str:
    return format_item(_build_record_fields(record), "  ")


def _build_task_fields(task: Task) -> dict[str, YamlValue]:
    fields = {**dump_task(task), "estimate_minutes": task.estimate_minutes}
    return {name: value for name, value in fields.items() if value is not None}


def _build_record_fields(record: TaskRecord) -> dict[str, YamlValue]:
    return {
        **_build_task_fields(record.task),
        "status": record.state.value,
        "agent_id": record.agent_id,
        "worktree": record.worktree,
        "branch": record.branch,
        "retry_count": record.retries,
        "result": {"status": record.verdict, "notes": record.verdict_notes if record.verdict else ""},
        "history": [_build_history_fields(entry) for entry in record.history],
    }


def _build_history_fields(entry: HistoryEntry) -> dict[str, YamlValue]:
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


def _build_tasks(data: object) -> tuple[Task, ...]:
    assert isinstance(data, Mapping), "only data without problems"
    return tuple(_build_task(entry) for entry in data["tasks"])


def _build_task(entry: Mapping[str, Any]) -> Task:
    given = {name: field.make(entry[name]) for name, field in _FIELDS.items() if entry.get(name) is not None}
    return Task(**{"description": given["title"], "cohesion_group": given["id"], **given})


def _find_file_problems(data: object) -> Iterator[YamlProblem]:
    yield from _find_plan_problems(data)
    yield from _find_version_problems(data)
    yield from _find_unknown_keys(data)


def _find_version_problems(data: object) -> Iterator[YamlProblem]:
    for key in ("schema_version", "version"):
        if isinstance(data, Mapping) and key in data and (data[key] != SCHEMA_VERSION or data[key] is True):
            yield YamlProblem(
                (key,),
                f"{key} must be {SCHEMA_VERSION}, not {_format_value(data[key])}: written by a newer Blue Flame?",
            )


def _find_plan_problems(data: object) -> Iterator[YamlProblem]:
    if not isinstance(data, Mapping):
        yield YamlProblem((), f"expected an object with a list of tasks, not {_format_value(data)}")
    elif not isinstance(data.get("tasks"), Sequence) or isinstance(data["tasks"], str):
        found = _format_value(data["tasks"]) if "tasks" in data else "nothing"
        yield YamlProblem(("tasks",), f"tasks must be a list, not {found}")
    else:
        for n, entry in enumerate(data["tasks"]):
            yield from _find_task_problems(entry, ("tasks", n), older="version" in data)


def _find_task_problems(entry: object, place: KeyPath, *, older: bool) -> Iterator[YamlProblem]:
    if not isinstance(entry, Mapping):
        yield YamlProblem(place, f"a task must be an object, not {_format_value(entry)}")
        return
    for name, field in _FIELDS.items():
        value = entry.get(name)
        if value is None:
            # the older form has tasks with a title only
            if field.required and not (older and name == "description"):
                yield YamlProblem((*place, name), f"{_format_id(entry)}{name} is missing: give {field.expected}")
        elif not field.fits(value):
            yield YamlProblem(
                (*place, name), f"{_format_id(entry)}{name} must be {field.expected}, not {_format_value(value)}"
            )


def _find_unknown_keys(data: object) -> Iterator[YamlProblem]:
    if not isinstance(data, Mapping):
        return
    yield from (YamlProblem((key,), _format_unknown_key(key, _TOP_KEYS)) for key in data if key not in _TOP_KEYS)
    for n, entry in enumerate(data["tasks"] if isinstance(data.get("tasks"), list | tuple) else ()):
        for key in entry if isinstance(entry, Mapping) else ():
            if key not in _KNOWN:
                yield YamlProblem(("tasks", n, key), _format_id(entry) + _format_unknown_key(key, _KNOWN))


def _format_unknown_key(key: object, known: Sequence[str]) -> str:
    return f"unknown key {key!r}{suggest(str(key), known, before='; ')}"


def _format_id(entry: Mapping[str, Any]) -> str:
    return f"{entry['id']}: " if _is_id(entry.get("id")) else ""


_KINDS = {
    bool: "the boolean",
    int: "the integer",
    float: "the number",
    str: "the text",
    dict: "an object",
    list: "a list",
}


def _format_value(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return f"{_KINDS.get(type(value), type(value).__name__)} {text if len(text) <= 60 else text[:57] + '...'}"


def _format_rest(problems: Sequence[YamlProblem]) -> list[str]:
    return [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []


def _format_with_line(path: Path, found: Document, problem: YamlProblem) -> str:
    line = problem.line or found.find_line(problem.path)
    return f"{path}:{line}: {problem.text}" if line else f"{path}: {_format_problem(problem)}"


def _format_problem(problem: YamlProblem) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.path[:2]).lstrip(".")
    return f"{where}: {problem.text}" if len(problem.path) > 1 else problem.text
