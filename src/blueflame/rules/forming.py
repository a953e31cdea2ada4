"""Putting validated tasks into changesets: one per cohesion group, in the order in which they must land."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.changeset import Changeset
from blueflame.model.task import FINISHED, TaskState
from blueflame.rules.grouping import Grouped, order_groups
from blueflame.rules.session import Session
from blueflame.rules.stages import is_quiet


def form(session: Session) -> tuple[Changeset, ...]:
    """With a barrier all groups at once; without it each group as soon as none of its tasks can still move."""
    tasks = [session.tasks[name].task for name in session.in_state(TaskState.VALIDATED)]
    groups = tuple(_settled(session, order_groups(tasks, _built_on(session))))
    first = len(session.changesets) + 1
    return tuple(_changeset(session, group, n) for n, group in enumerate(groups, start=first))


def _built_on(session: Session) -> Iterator[tuple[str, str]]:
    for name in session.in_state(TaskState.VALIDATED):
        result = session.tasks[name].result
        if result is not None:
            yield from ((name, foundation.task) for foundation in result.built_on)


def _settled(session: Session, groups: tuple[Grouped, ...]) -> Iterator[Grouped]:
    if session.workflow.barrier or is_quiet(session):
        yield from groups
        return
    waiting: set[str] = set()
    for group in groups:
        moving = any(session.group_motion.get(name, 0) for name in group.names)
        if moving or waiting & set(group.after):
            waiting |= set(group.names)
        else:
            yield group


def _changeset(session: Session, group: Grouped, n: int) -> Changeset:
    return Changeset(
        id=f"cs-{n:03d}",
        cycle=session.cycle,
        group=group.name,
        title=_title(session, group.tasks),
        tasks=group.tasks,
        after=group.after,
        missing=_missing(session, group),
    )


def _title(session: Session, tasks: tuple[str, ...]) -> str:
    title = session.tasks[tasks[0]].task.title
    return title if len(tasks) == 1 else f"{title} (and {len(tasks) - 1} more)"


def _missing(session: Session, group: Grouped) -> tuple[str, ...]:
    """Members of the group that are not ready to land with it; the person is told."""
    return tuple(
        name
        for name, record in sorted(session.tasks.items())
        if record.task.cohesion_group in group.names and name not in group.tasks and record.state not in FINISHED
    )
