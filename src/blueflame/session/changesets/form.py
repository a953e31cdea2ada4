"""Form changesets of validated tasks: one per cohesion group, in the order in which they must land."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from blueflame.model.changeset import Changeset
from blueflame.model.task import FINISHED, TaskState
from blueflame.session.cascade import find_reachable
from blueflame.session.changesets.groups import LandingGroup, order_groups
from blueflame.session.scheduling.graph import reverse_edges
from blueflame.session.scheduling.settled_groups import MAY_MOVE
from blueflame.session.state import Session

URGENT = 1_000_000  # more than any priority


def form_changesets(session: Session, tasks: Collection[str]) -> tuple[Changeset, ...]:
    """Form the changesets of tasks that may land (see `find_landable_tasks`)."""
    members = [session.tasks[name].task for name in sorted(tasks)]
    edges = ((name, below) for name in tasks for below in _list_unlanded_foundations(session, name))
    urgent = dict.fromkeys(session.fixes, URGENT)
    groups = order_groups(members, edges, {**session.postponements, **urgent} if urgent else session.postponements)
    return tuple(
        _build_changeset(session, group, n) for n, group in enumerate(groups, start=len(session.changesets) + 1)
    )


def find_landable_tasks(session: Session, *, settled: bool) -> tuple[str, ...]:
    """Return the validated tasks that can land: each after, or together with, everything it was built on.

    While other tasks can still be validated (not `settled`), a group waits for its own tasks and for those of the
    groups that it builds on.
    """
    if settled:
        return _drop_unfounded(session, session.states[TaskState.VALIDATED])
    return session.settled.list_tasks()


def list_fixes_to_land(session: Session) -> tuple[str, ...]:
    """Return the validated fixes that need nothing of the changesets which are landing, with all of their groups."""
    fixes = [name for name in session.fixes if name in session.states[TaskState.VALIDATED]]
    found = {session.tasks[name].task.cohesion_group for name in fixes if name not in session.changeset_of}
    groups = [
        [name for name in session.groups[group] if session.tasks[name].state is TaskState.VALIDATED]
        for group in sorted(found)
        if not any(session.tasks[name].state in MAY_MOVE for name in session.groups[group])
    ]
    free = [name for names in groups if session.changeset_of.keys().isdisjoint(names) for name in names]
    return _drop_unfounded(session, free)


def _drop_unfounded(session: Session, tasks: Collection[str]) -> tuple[str, ...]:
    """Leave out tasks that were built on work that neither has landed nor lands with them."""
    needs = {name: set(_list_unlanded_foundations(session, name)) for name in tasks}
    unfounded = [name for name, foundations in needs.items() if not foundations <= needs.keys()]
    dropped = {*unfounded, *find_reachable(unfounded, reverse_edges(needs).__getitem__)}
    return tuple(name for name in tasks if name not in dropped)


def _list_unlanded_foundations(session: Session, name: str) -> Iterator[str]:
    """List the tasks that a validated task was built on and that have not landed."""
    result = session.tasks[name].result
    assert result is not None, f"{name} is validated without a result"
    for foundation in result.built_on:
        if session.tasks[foundation.task].state is not TaskState.MERGED:
            yield foundation.task


def _build_changeset(session: Session, group: LandingGroup, n: int) -> Changeset:
    return Changeset(
        id=f"cs-{n:03d}",
        cycle=session.cycle,
        group=group.name,
        title=build_changeset_title(session, group.tasks),
        tasks=group.tasks,
        after=group.after,
        missing=_list_missing_tasks(session, group),
    )


def build_changeset_title(session: Session, tasks: tuple[str, ...]) -> str:
    title = session.tasks[tasks[0]].task.title
    return title if len(tasks) == 1 else f"{title} (and {len(tasks) - 1} more)"


def _list_missing_tasks(session: Session, group: LandingGroup) -> tuple[str, ...]:
    """List the unfinished tasks of the group that do not land with it; the gate shows them."""
    members = {name for part in group.names for name in session.groups[part]} - set(group.tasks)
    return tuple(name for name in sorted(members) if session.tasks[name].state not in FINISHED)
