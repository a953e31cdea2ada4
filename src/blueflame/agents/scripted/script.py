"""Scripts: what scripted agents do, by role, task and attempt (docs/how-to/write-scripted-agents.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

from blueflame.agents.runtime import AgentBrief
from blueflame.agents.scripted.behaviours import BEHAVIOURS, MAX_TITLE, Step, build_steps
from blueflame.agents.scripted.placeholders import fill_placeholders
from blueflame.agents.scripted.steps import ROGUE, StepError, mark_rogue, read_step
from blueflame.documents.yaml import Document, KeyPath, read_document
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import PLANNER, USUAL_ROLES
from blueflame.model.errors import ScriptError, WorldError
from blueflame.model.ids import ROLE_NAME, is_task_id
from blueflame.model.suggestions import suggest
from blueflame.system.files import read_text

SCHEMA_VERSION = 1
TOP_KEYS = ("schema_version", "defaults", "planner", "tasks")
ANY_ATTEMPT = "*"

StepsByAttempt: TypeAlias = Mapping[str, tuple[Step, ...]]
"""What one role does, by attempt: "1", "2", ... and "*" for any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    source: str = "the built-in script"
    defaults: Mapping[str, StepsByAttempt] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, StepsByAttempt]] = field(default_factory=dict)


BUILT_IN_SCRIPT = Script()
"""Every agent is `good`: a session runs from end to end without a script."""


def load_script(path: Path) -> Script:
    """Read a script. Raises ScriptError with every problem, each with its line."""
    try:
        text = read_text(path, "the script")
    except WorldError as error:  # a file that the person named
        raise ScriptError("the script cannot be played", [str(error)]) from error
    return parse_script(text, source=str(path))


def parse_script(text: str, *, source: str) -> Script:
    read = _ScriptReader(read_document(text, any_key=True))
    script = read.read_script(source)
    if read.problems:
        problems = [f"{source}:{line}: {message}" for line, message in sorted(set(read.problems))]
        raise ScriptError(f"the script {source} cannot be played", problems)
    return script


def build_attempt_steps(script: Script, brief: AgentBrief) -> tuple[Step, ...]:
    """Build the steps of this attempt, with every placeholder filled in."""
    chosen = _choose_steps(script, brief)
    values = _build_values(brief)
    return tuple(_fill_step(step, brief, values) for step in _expand_behaviours(chosen, brief))


def _choose_steps(script: Script, brief: AgentBrief) -> tuple[Step, ...]:
    """By its role, else by the built-in role of its duty: `worker` is also what a `backend` does."""
    roles = dict.fromkeys((brief.role, USUAL_ROLES[brief.duty]))
    sections = (script.tasks.get(brief.subject, {}), script.defaults)
    for part in (section.get(role, {}) for section in sections for role in roles):
        for attempt in (str(brief.n), ANY_ATTEMPT):
            if attempt in part:
                return part[attempt]
    return ({"do": "play", "character": "good"},)


def _expand_behaviours(steps: tuple[Step, ...], brief: AgentBrief) -> Iterator[Step]:
    for step in steps:
        if step["do"] == "play":
            played = build_steps(step["character"], brief)
            yield from (mark_rogue(each, step[ROGUE]) for each in played) if ROGUE in step else played
        else:
            yield step


def _fill_step(step: Step, brief: AgentBrief, values: Mapping[str, str]) -> Step:
    filled: Step = {
        name: value if name in ("do", ROGUE) else fill_placeholders(value, values) for name, value in step.items()
    }
    if step["do"] != "note":
        return filled
    return {**filled, "locks": list(brief.task.file_locks) if brief.task else []}


def _build_values(brief: AgentBrief) -> Mapping[str, str]:
    title = " ".join(brief.task.title.split())[:MAX_TITLE] if brief.task else brief.subject
    return {
        "task": brief.subject,
        "attempt": str(brief.n),
        "session": brief.session,
        "agent": brief.agent_id,
        "role": brief.role,
        "branch": brief.branch,
        "base": brief.base,
        "title": title or brief.subject,
        "port": str(brief.ports[0]) if brief.ports else "",
    }


class _ScriptReader:
    """Reads a script and collects every problem with its line."""

    def __init__(self, located: Document) -> None:
        self._located = located
        self.problems: list[tuple[int, str]] = []
        for problem in located.problems:
            self.problems.append((problem.line or 1, problem.text))

    def read_script(self, source: str) -> Script:
        top = self._located.data
        if top is None and not self.problems:
            return Script(source=source)
        if not isinstance(top, dict):
            if not self.problems:
                self._report((), f"a script is a mapping with {', '.join(TOP_KEYS)}")
            return BUILT_IN_SCRIPT
        self._check_keys(top, TOP_KEYS, ())
        self._check_version(top)
        defaults = self._read_roles(top.get("defaults", {}), ("defaults",))
        return Script(
            source=source,
            defaults={**defaults, **self._read_planner(top)},
            tasks=self._read_tasks(top.get("tasks", {})),
        )

    def _check_version(self, top: Mapping[str, object]) -> None:
        version = top.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION or isinstance(version, bool):
            self._report(
                ("schema_version",),
                f"schema_version: {version!r} is not supported; this version reads {SCHEMA_VERSION}",
            )

    def _read_planner(self, top: Mapping[str, Any]) -> Mapping[str, StepsByAttempt]:
        if PLANNER not in top:
            return {}
        if isinstance(top.get("defaults"), dict) and PLANNER in top["defaults"]:
            self._report((PLANNER,), "planner: also under `defaults`; keep one of them")
        return {PLANNER: self._read_part(top[PLANNER], (PLANNER,))}

    def _read_tasks(self, tasks: object) -> Mapping[str, Mapping[str, StepsByAttempt]]:
        if not isinstance(tasks, dict):
            self._report(("tasks",), "tasks: expected a mapping from task ids to roles")
            return {}
        for name in tasks:
            if not is_task_id(name):
                self._report(("tasks", name), f"tasks: {name!r} is not a task id like task-001")
        return {name: self._read_roles(roles, ("tasks", name)) for name, roles in tasks.items()}

    def _read_roles(self, roles: object, place: KeyPath) -> dict[str, StepsByAttempt]:
        if not isinstance(roles, dict):
            self._report(place, f"{_format_place(place)}: expected a mapping from roles to what they do")
            return {}
        for role in roles:
            if not ROLE_NAME.fullmatch(role):
                self._report((*place, role), f"{_format_place(place)}: {role!r} is not the name of a role")
        return {role: self._read_part(part, (*place, role)) for role, part in roles.items()}

    def _read_part(self, part: object, place: KeyPath) -> StepsByAttempt:
        """Read a behaviour or a list of steps for every attempt, or a mapping by attempt."""
        if not isinstance(part, dict):
            return {ANY_ATTEMPT: self._read_steps(part, place)}
        for attempt in part:
            if attempt != ANY_ATTEMPT and not (
                attempt.isascii() and attempt.isdecimal() and attempt == str(int(attempt)) != "0"
            ):
                self._report(
                    (*place, attempt), f"{_format_place(place)}: {attempt!r} is not an attempt: 1, 2, ... or '*'"
                )
        return {attempt: self._read_steps(steps, (*place, attempt)) for attempt, steps in part.items()}

    def _read_steps(self, steps: object, place: KeyPath) -> tuple[Step, ...]:
        if isinstance(steps, str):
            if steps not in BEHAVIOURS:
                hint = suggest(steps, BEHAVIOURS, before="; ")
                self._report(
                    place,
                    f"{_format_place(place)}: {steps!r} is not a behaviour{hint}; there are {', '.join(BEHAVIOURS)}",
                )
            return ({"do": "play", "character": steps},)
        if not isinstance(steps, list):
            self._report(
                place, f"{_format_place(place)}: expected a list of steps or a behaviour's name, not {steps!r:.60}"
            )
            return ()
        return tuple(step for n, item in enumerate(steps) for step in self._read_step(item, (*place, n)))

    def _read_step(self, item: object, place: KeyPath) -> Iterator[Step]:
        try:
            yield read_step(item)
        except StepError as e:
            self._report(place, f"{_format_place(place)}: {e}")

    def _check_keys(self, given: Mapping[str, object], known: tuple[str, ...], place: KeyPath) -> None:
        for name in given:
            if name not in known:
                hint = suggest(str(name), known, before="; ")
                self._report((*place, name), f"unknown key {name!r}{hint}; the keys are {', '.join(known)}")

    def _report(self, place: KeyPath, message: str) -> None:
        self.problems.append((self._located.find_line(place) or 1, message))


def _format_place(place: KeyPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
