"""Tasks in columns by depth: each is one column right of the last task it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blueflame.model.task import Task
from blueflame.session.scheduling.graph import sort_topologically

MAX_TASKS = 250


class TaskColumns(NamedTuple):
    columns: tuple[tuple[str, ...], ...] = ()
    hidden: int = 0  # tasks beyond MAX_TASKS


def arrange_by_depth(tasks: Sequence[Task]) -> TaskColumns:
    """Arrange the first MAX_TASKS tasks, in the order of their dependencies."""
    names = {task.id for task in tasks}
    needs = {task.id: sorted({need for need in task.dependencies if need in names}) for task in tasks}
    order = sort_topologically(needs, lambda name: name)
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = 1 + max((depth.get(need, -1) for need in needs[name]), default=-1)
    shown = sorted(order[:MAX_TASKS])
    deepest = max((depth[name] for name in shown), default=-1)
    columns = tuple(tuple(name for name in shown if depth[name] == n) for n in range(deepest + 1))
    return TaskColumns(columns, len(order) - len(shown))
