"""What happens to other tasks when a result is rejected, fails or is dropped: nothing may land on top of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from blueflame.model.event import ChangesetJudged, Event, TaskMoved
from blueflame.model.gate import GateKind
from blueflame.model.task import VERIFIED_NOT_LANDED, Cause, TaskState
from blueflame.session.state import Session

BLOCKABLE = frozenset({TaskState.PENDING, TaskState.REQUEUED})
WILL_NOT_FINISH = frozenset({TaskState.DROPPED, TaskState.FAILED, TaskState.BLOCKED})
"""A dependency in one of these states will not finish in this cycle."""


def defer_tasks_built_on(
    session: Session, invalid: Collection[str], why: str, *, apart_from: str = ""
) -> Iterator[Event]:
    """Defer verified work that contains the commit of an invalid task, with everything that was to land with it.

    `apart_from` is a changeset that was just trimmed of these tasks: the rest of it is not built on them.
    """
    kept = frozenset(session.changesets[apart_from].changeset.tasks) if apart_from else frozenset[str]()
    tasks = find_reachable(
        invalid, lambda name: (other for other in _list_tasks_built_on(session, name) if other not in kept)
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
    """Block the tasks that depend on this one and have not begun, but for those that a person is asked about."""
    for name in find_dependants(session, [task]):
        if session.tasks[name].state in BLOCKABLE and not session.is_asking(GateKind.ESCALATION, name):
            yield TaskMoved(task=name, cause=Cause.BLOCK, reason=why)


def block_if_dependency_failed(session: Session, task: str) -> Iterator[Event]:
    """Block a task if one of its dependencies failed, was blocked or was dropped while it was worked on."""
    if reason := find_failed_dependency(session, task):
        yield TaskMoved(task=task, cause=Cause.BLOCK, reason=reason)


def drop_task(session: Session, name: str, reason: str) -> Iterator[Event]:
    yield TaskMoved(task=name, cause=Cause.DROP, reason=reason)
    yield from defer_tasks_built_on(session, (name,), f"{name} was dropped")
    yield from block_dependants(session, name, f"dependency {name} was dropped")


def find_dependants(session: Session, tasks: Iterable[str]) -> tuple[str, ...]:
    """Return the tasks that depend on these, directly or through others that have not landed."""

    def list_unlanded(name: str) -> Iterator[str]:
        return (n for n in session.dependants.get(name, ()) if session.tasks[n].state is not TaskState.MERGED)

    return find_reachable(tasks, list_unlanded)


def find_reachable(start: Iterable[str], list_next: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """Return everything that can be reached from `start`, without `start` itself, in id order."""
    begun = set(start)
    seen = set(begun)
    frontier = sorted(begun)
    while frontier:
        for name in list_next(frontier.pop()):
            if name not in seen:
                seen.add(name)
                frontier.append(name)
    return tuple(sorted(seen - begun))


def find_failed_dependency(session: Session, task: str) -> str:
    """Describe a dependency that will not finish in this cycle; empty without such a dependency."""
    for need in session.tasks[task].task.dependencies:
        state = session.tasks[need].state
        if state in WILL_NOT_FINISH:
            return f"dependency {need} {'was dropped' if state is TaskState.DROPPED else state.value}"
    return ""
