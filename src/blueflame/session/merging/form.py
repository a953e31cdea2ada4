"""Putting validated tasks into changesets: one per cohesion group, in the order in which they must land."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from blueflame.model.changeset import Changeset, ChangesetState
from blueflame.model.task import FINISHED, TaskState
from blueflame.session.cascade import find_reachable
from blueflame.session.merging.groups import LandingGroup, order_groups
from blueflame.session.scheduling.graph import reverse_edges
from blueflame.session.state import Session

MAY_MOVE = frozenset({TaskState.PENDING, TaskState.CLAIMED, TaskState.DONE})
POSTPONED = frozenset({ChangesetState.SKIPPED, ChangesetState.DEFERRED})


def form_changesets(session: Session, tasks: Collection[str]) -> tuple[Changeset, ...]:
    """The changesets of tasks that may land (see `find_landable_tasks`)."""
    members = [session.tasks[name].task for name in sorted(tasks)]
    edges = ((name, below) for name in tasks for below in _list_unlanded_foundations(session, name))
    groups = order_groups(members, edges, _count_postponements(session, tasks))
    return tuple(
        _build_changeset(session, group, n) for n, group in enumerate(groups, start=len(session.changesets) + 1)
    )


def _count_postponements(session: Session, tasks: Collection[str]) -> dict[str, int]:
    """How many changesets with it were put off."""
    counts = dict.fromkeys(tasks, 0)
    for record in session.changesets.values():
        if record.state in POSTPONED:
            for name in record.changeset.tasks:
                if name in counts:
                    counts[name] += 1
    return counts


def find_landable_tasks(session: Session, *, settled: bool) -> tuple[str, ...]:
    """The validated tasks that could land: each after, or together with, all that it was built on.

    While others still move (not `settled`), a group waits until none of its own tasks does, nor of those it builds on.
    """
    if settled:
        return _drop_unfounded(session, session.states[TaskState.VALIDATED])
    return _find_settled_tasks(session)


def _find_settled_tasks(session: Session) -> tuple[str, ...]:
    """Validated tasks of groups in which, and in whose foundations, no task may still move."""
    validated: dict[str, list[str]] = {}
    for name in session.states[TaskState.VALIDATED]:
        validated.setdefault(session.tasks[name].task.cohesion_group, []).append(name)
    settled = {
        group: set(_list_needed_groups(session, names))
        for group, names in validated.items()
        if not _may_move(session, group)
    }

    def must_wait(needs: set[str]) -> bool:
        return any(need not in settled and (need in validated or _may_move(session, need)) for need in needs)

    while waiting := [group for group, needs in settled.items() if must_wait(needs)]:
        for group in waiting:
            del settled[group]
    return tuple(name for group in settled for name in validated[group])


def _list_needed_groups(session: Session, tasks: Collection[str]) -> Iterator[str]:
    for name in tasks:
        for below in _list_unlanded_foundations(session, name):
            yield session.tasks[below].task.cohesion_group


def _may_move(session: Session, group: str) -> bool:
    return any(session.tasks[name].state in MAY_MOVE for name in session.groups[group])


def _drop_unfounded(session: Session, tasks: Collection[str]) -> tuple[str, ...]:
    """Without those that stand on what neither has landed nor lands with them."""
    needs = {name: set(_list_unlanded_foundations(session, name)) for name in tasks}
    loose = [name for name, wanted in needs.items() if not wanted <= needs.keys()]
    fallen = {*loose, *find_reachable(loose, reverse_edges(needs).__getitem__)}
    return tuple(name for name in tasks if name not in fallen)


def _list_unlanded_foundations(session: Session, name: str) -> Iterator[str]:
    """The tasks it was built on that have not landed."""
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
    """Members of the group that are not ready to land with it; the person is told."""
    members = {name for part in group.names for name in session.groups[part]} - set(group.tasks)
    return tuple(name for name in sorted(members) if session.tasks[name].state not in FINISHED)
