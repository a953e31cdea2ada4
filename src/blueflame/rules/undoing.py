"""What else falls when a task's result falls: nothing may stand on work that was rejected, failed or dropped."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.event import ChangesetJudged, Event, TaskMoved
from blueflame.model.task import STANDING, Cause, TaskState
from blueflame.rules.foundations import built_on_it
from blueflame.rules.session import ACTIVE, Session

MAY_BLOCK = frozenset({TaskState.PENDING, TaskState.REQUEUED})


def defer_built_on(session: Session, fallen: tuple[str, ...], why: str) -> Iterator[Event]:
    """Verified work that contains a fallen commit waits, and so do the changesets that hold it."""
    tasks = sorted({other for task in fallen for other in built_on_it(session, task)} - set(fallen))
    standing = [name for name in tasks if session.tasks[name].state in STANDING]
    for changeset in dict.fromkeys(session.changeset_of[name] for name in standing if name in session.changeset_of):
        yield from _defer_changeset(session, changeset, set(fallen), why)
    for name in standing:
        if name not in session.changeset_of:
            yield TaskMoved(task=name, cause=Cause.DEFER, reason=why)


def _defer_changeset(session: Session, name: str, fallen: set[str], why: str) -> Iterator[Event]:
    record = session.changesets[name]
    if record.state not in ACTIVE or fallen & set(record.changeset.tasks):
        return
    yield ChangesetJudged(changeset=name, choice="defer", note=why)
    for task in record.changeset.tasks:
        yield TaskMoved(task=task, cause=Cause.DEFER, reason=why)


def block_dependants(session: Session, task: str, why: str) -> Iterator[Event]:
    """Only what has not begun is blocked; what is done, running or landed is left as it is (E-05)."""
    seen = {task}
    frontier = [task]
    while frontier:
        for name in session.dependants.get(frontier.pop(0), ()):
            if name not in seen:
                seen.add(name)
                frontier.append(name)
                if session.tasks[name].state in MAY_BLOCK:
                    yield TaskMoved(task=name, cause=Cause.BLOCK, reason=why)
