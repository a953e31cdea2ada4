"""The slow way to find the tasks of settled groups, to compare the index with."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from blueflame.model.task import TaskState
from blueflame.session.scheduling.settled_groups import MAY_MOVE


def find_settled_tasks(
    groups: Mapping[str, str], states: Mapping[str, TaskState], foundations: Mapping[str, Collection[str]]
) -> list[str]:
    validated = [task for task, state in states.items() if state is TaskState.VALIDATED]
    moving = {groups[task] for task, state in states.items() if state in MAY_MOVE}
    candidates = {groups[task] for task in validated}
    waiting = set[str](moving)
    while True:
        more = {
            groups[task]
            for task in validated
            if any(states[below] is not TaskState.MERGED and groups[below] in waiting for below in foundations[task])
        }
        if more <= waiting:
            return sorted(task for task in validated if groups[task] in candidates - waiting)
        waiting |= more
