"""Who keeps whom waiting: the locks that running tasks hold, and what each pending task waits for."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import columns
from blueflame.model.task import TaskState
from blueflame.session.state import Session
from blueflame.text.format import duration
from blueflame.text.sanitize import one_line


class Held(NamedTuple):
    """The locks that one task keeps others from, and since when."""

    task: str
    agent: str
    since: float
    paths: tuple[str, ...]


def held_locks(session: Session) -> list[Held]:
    """In the order of the tasks' ids. A task without locks holds the whole tree."""
    held = []
    for name in session.in_state(TaskState.CLAIMED):
        if (attempt := session.live_attempt(name)) is not None:
            since = session.attempts[attempt.id].intended_at
            held.append(Held(name, attempt.agent_id, since, session.tasks[name].task.file_locks or (".",)))
    return held


def show_locks(session: Session, *, now: float) -> RenderableType | None:
    held = held_locks(session)
    if not held:
        return None
    rows: list[tuple[RenderableType, ...]] = [tuple(Text(word, "quiet") for word in ("task", "agent", "for", "locks"))]
    rows += [
        (Text(each.task, "id"), Text(each.agent, "id"), duration(now - each.since), one_line(", ".join(each.paths)))
        for each in held
    ]
    return Group(Text("Locks held", "head"), columns(rows, right=(2,)))


def locks_json(session: Session) -> list[dict[str, Any]]:
    return [each._asdict() for each in held_locks(session)]


def waits_for(session: Session, task: str) -> str:
    """Empty for a task that waits for nothing, or whose session is over."""
    return "" if session.ended else session.queue.why_waiting(task)
