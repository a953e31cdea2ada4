"""Who keeps whom waiting: the locks that running tasks hold, and what each pending task waits for."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import build_columns
from blueflame.model.task import TaskState
from blueflame.session.state import Session
from blueflame.text.format import format_duration
from blueflame.text.sanitize import clean_line


class HeldLock(NamedTuple):
    """The locks that one task keeps others from, and since when."""

    task: str
    agent: str
    since: float
    paths: tuple[str, ...]


def list_held_locks(session: Session) -> list[HeldLock]:
    """In the order of the tasks' ids. A task without locks holds the whole tree."""
    held = []
    for name in session.list_in_state(TaskState.CLAIMED):
        if (attempt := session.find_live_attempt(name)) is not None:
            since = session.attempts[attempt.id].intended_at
            held.append(HeldLock(name, attempt.agent_id, since, session.tasks[name].task.file_locks or (".",)))
    return held


def render_locks(session: Session, *, now: float) -> RenderableType | None:
    held = list_held_locks(session)
    if not held:
        return None
    rows: list[tuple[RenderableType, ...]] = [tuple(Text(word, "quiet") for word in ("task", "agent", "for", "locks"))]
    rows += [
        (
            Text(each.task, "id"),
            Text(each.agent, "id"),
            format_duration(now - each.since),
            clean_line(", ".join(each.paths)),
        )
        for each in held
    ]
    return Group(Text("Locks held", "head"), build_columns(rows, right=(2,)))


def build_locks_json(session: Session) -> list[dict[str, Any]]:
    return [each._asdict() for each in list_held_locks(session)]


def find_wait_reason(session: Session, task: str) -> str:
    """Empty for a task that waits for nothing, or whose session is over."""
    return "" if session.ended else session.queue.explain_waiting(task)
