"""The order of ready tasks: urgent ones, then by priority, the longest path of tasks that depend on them, the most
overlapping locks of others, and id (decision 0136)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from math import isfinite
from typing import TypeAlias

from blueflame.model.task import Task
from blueflame.paths.locks import parse_task_locks
from blueflame.session.scheduling.graph import reverse_edges

Rank: TypeAlias = tuple[float, float, int, str]
"""(priority, 0 for an urgent task; minus the remaining path; minus the overlapping locks; id): the smallest first."""

UNKNOWN_MINUTES = 1.0


def estimate_weight(task: Task) -> float:
    """Return the estimated minutes of a task; an invalid estimate counts as unknown."""
    minutes = task.estimate_minutes
    return minutes if minutes is not None and isfinite(minutes) and minutes > 0 else UNKNOWN_MINUTES


def list_dependants(tasks: Iterable[Task]) -> dict[str, list[str]]:
    """Return for each task those that depend on it directly, in plan order; names outside the plan are left out."""
    return reverse_edges({task.id: tuple(dict.fromkeys(task.dependencies)) for task in tasks})


def compute_remaining_paths(tasks: Iterable[Task]) -> dict[str, float]:
    """Compute the length in minutes of the longest chain that starts with each task; on a cycle, of the task alone."""
    plan = {task.id: task for task in tasks}
    unvisited = {name: len(dependants) for name, dependants in list_dependants(plan.values()).items()}
    remaining = {name: estimate_weight(task) for name, task in plan.items()}
    ready = [name for name, count in unvisited.items() if count == 0]
    while ready:
        name = ready.pop()
        for need in dict.fromkeys(plan[name].dependencies):
            if need not in plan:
                continue
            remaining[need] = max(remaining[need], estimate_weight(plan[need]) + remaining[name])
            unvisited[need] -= 1
            if unvisited[need] == 0:
                ready.append(need)
    return remaining


def count_overlaps(tasks: Iterable[Task]) -> dict[str, int]:
    """Count for each task the locks of all tasks that overlap its own; its own are in it."""
    locks = {task.id: parse_task_locks(task) for task in tasks}
    held = Counter(path for paths in locks.values() for path in paths)
    below = Counter(path[:depth] for paths in locks.values() for path in paths for depth in range(len(path)))
    return {
        name: sum(below[path] + sum(held[path[:depth]] for depth in range(len(path) + 1)) for path in paths)
        for name, paths in locks.items()
    }


def compute_ranks(tasks: Iterable[Task], urgent: Container[str] = ()) -> Mapping[str, Rank]:
    plan = tuple(tasks)
    remaining, overlaps = compute_remaining_paths(plan), count_overlaps(plan)
    return {
        task.id: (0 if task.id in urgent else task.priority, -remaining[task.id], -overlaps[task.id], task.id)
        for task in plan
    }
