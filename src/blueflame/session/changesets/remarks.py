"""What the agents of a task did that a person should know before its work lands."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.checks.leftovers import find_leftover_note
from blueflame.session.clarifications import list_assumptions
from blueflame.session.state import Session


def list_remarks(session: Session, task: str) -> Iterator[str]:
    """Yield what follows the words `The agent of task-001`."""
    yield from list_assumptions(session, task)
    result = session.tasks[task].result
    made = session.attempts.get(result.attempt) if result else None
    if made is None or made.ended is None:
        return
    if made.attempt.unguarded:
        yield f"worked with less than all walls ({made.attempt.unguarded})"
    if left := find_leftover_note(made.ended.notes):
        yield f"left work uncommitted, which does not land: {left}"
    if made.ended.remark:
        yield made.ended.remark
