"""What else falls when a task's result falls: nothing may stand on work that was rejected, failed or dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from blueflame.model.event import ChangesetJudged, Event, TaskMoved
from blueflame.model.task import VERIFIED_NOT_LANDED, Cause, TaskState
from blueflame.session.state import Session

BLOCKABLE = frozenset({TaskState.PENDING, TaskState.REQUEUED})
WILL_NOT_FINISH = frozenset({TaskState.DROPPED, TaskState.FAILED, TaskState.BLOCKED})
"""A dependency in one of these will not be done in this cycle."""


def defer_tasks_built_on(
    session: Session, fallen: Collection[str], why: str, *, apart_from: str = ""
) -> Iterator[Event]:
    """Verified work that contains a fallen commit waits, and with it all that was to land together with it.

    `apart_from` is a changeset that has just parted with the fallen: what is left in it stands on none of them.
    """
    kept = frozenset(session.changesets[apart_from].changeset.tasks) if apart_from else frozenset[str]()
    tasks = find_reachable(
        fallen, lambda name: (other for other in _list_tasks_built_on(session, name) if other not in kept)
    )
    for changeset in sorted({session.changeset_of[name] for name in tasks if name in session.changeset_of}):
        yield ChangesetJudged(changeset=changeset, choice="defer", note=why)
    for name in tasks:
        yield TaskMoved(task=name, cause=Cause.DEFER, reason=why)


def _list_tasks_built_on(session: Session, name: str) -> Iterator[str]:
    for other in session.built_upon.get(name, ()):
        if session.tasks[other].state in VERIFIED_NOT_LANDED:
            yield other
            changeset = session.changeset_of.get(other)
            if changeset is not None:
                yield from session.changesets[changeset].changeset.tasks


def block_dependants(session: Session, task: str, why: str) -> Iterator[Event]:
    """Only what has not begun is blocked; what is done, running or landed is left as it is (E-05)."""
    for name in find_dependants(session, [task]):
        if session.tasks[name].state in BLOCKABLE:
            yield TaskMoved(task=name, cause=Cause.BLOCK, reason=why)


def find_dependants(session: Session, tasks: Iterable[str]) -> tuple[str, ...]:
    """All that need one of these, directly or through others. What has landed carries those behind it."""
    return find_reachable(
        tasks, lambda name: (n for n in session.dependants.get(name, ()) if not _has_landed(session, n))
    )


def _has_landed(session: Session, name: str) -> bool:
    return session.tasks[name].state is TaskState.MERGED


def find_reachable(start: Iterable[str], onward: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """Everybody who can be reached, those one starts from left out, in id order."""
    begun = set(start)
    seen = set(begun)
    frontier = sorted(begun)
    while frontier:
        for name in onward(frontier.pop()):
            if name not in seen:
                seen.add(name)
                frontier.append(name)
    return tuple(sorted(seen - begun))


def find_obstacle(session: Session, task: str) -> str:
    """Why a task cannot be taken up again in this cycle; empty when it can."""
    for need in session.tasks[task].task.dependencies:
        state = session.tasks[need].state
        if state in WILL_NOT_FINISH:
            return f"dependency {need} {'was dropped' if state is TaskState.DROPPED else state.value}"
    return ""
