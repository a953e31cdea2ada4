"""In which order ready tasks go: by priority, then by the longest path of work that waits behind them, then by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TypeAlias

from blueflame.model.task import Task
from blueflame.session.scheduling.graph import reverse_edges

Rank: TypeAlias = tuple[float, float, str]
"""(priority, minus the remaining path, id): the smaller goes first."""

UNKNOWN_MINUTES = 1.0


def estimate_weight(task: Task) -> float:
    """How long a task is thought to take; an estimate that cannot be one counts as unknown."""
    minutes = task.estimate_minutes
    return minutes if minutes is not None and isfinite(minutes) and minutes > 0 else UNKNOWN_MINUTES


def list_dependants(tasks: Iterable[Task]) -> dict[str, list[str]]:
    """For each task those that name it as a dependency, in plan order; names outside the plan are left out."""
    return reverse_edges({task.id: tuple(dict.fromkeys(task.dependencies)) for task in tasks})


def compute_remaining_paths(tasks: Iterable[Task]) -> dict[str, float]:
    """The longest chain of work that starts with each task. Tasks on a cycle count for themselves only."""
    plan = {task.id: task for task in tasks}
    behind = list_dependants(plan.values())
    open_ends = {name: len(followers) for name, followers in behind.items()}
    remaining = {name: estimate_weight(task) for name, task in plan.items()}
    ready = [name for name, count in open_ends.items() if count == 0]
    while ready:
        name = ready.pop()
        for need in dict.fromkeys(plan[name].dependencies):
            if need not in plan:
                continue
            remaining[need] = max(remaining[need], estimate_weight(plan[need]) + remaining[name])
            open_ends[need] -= 1
            if open_ends[need] == 0:
                ready.append(need)
    return remaining


def compute_ranks(tasks: Iterable[Task]) -> Mapping[str, Rank]:
    plan = tuple(tasks)
    remaining = compute_remaining_paths(plan)
    return {task.id: (task.priority, -remaining[task.id], task.id) for task in plan}
