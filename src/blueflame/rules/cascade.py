"""What a task's failure, drop or rejection means for those behind it. Who is at work or has landed is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from blueflame.model.task import Task, TaskRecord, TaskState

CAN_BE_BLOCKED = frozenset({TaskState.PENDING, TaskState.REQUEUED})
CAN_BE_DEFERRED = frozenset({TaskState.DONE, TaskState.VALIDATED})


def dependants(tasks: Mapping[str, Task], task_id: str) -> tuple[str, ...]:
    """All that depend on a task, directly or through others: the nearest first, then by id."""
    behind = _behind((name, task.dependencies) for name, task in tasks.items())
    return _reach(task_id, behind, lambda _name: True)


def to_block(records: Mapping[str, TaskRecord], task_id: str) -> tuple[str, ...]:
    """The tasks that can no longer be done because this one will not be.

    What has landed carries those behind it: they need its commit, which is on the base branch, and nothing before it.
    """
    behind = _behind((name, record.task.dependencies) for name, record in records.items())
    reached = _reach(task_id, behind, lambda name: records[name].state is not TaskState.MERGED)
    return tuple(name for name in reached if records[name].state in CAN_BE_BLOCKED)


def to_defer(records: Mapping[str, TaskRecord], task_id: str) -> tuple[str, ...]:
    """The verified results that hold this task's commit, and so cannot land without it."""
    built = ((name, _foundations(record)) for name, record in records.items())
    reached = _reach(task_id, _behind(built), lambda name: records[name].state is not TaskState.MERGED)
    return tuple(name for name in reached if records[name].state in CAN_BE_DEFERRED)


def _foundations(record: TaskRecord) -> tuple[str, ...]:
    return tuple(foundation.task for foundation in record.result.built_on) if record.result else ()


def _behind(needs: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    behind: dict[str, list[str]] = {}
    for name, wanted in needs:
        for need in wanted:
            behind.setdefault(need, []).append(name)
    return behind


def _reach(start: str, behind: Mapping[str, Iterable[str]], passable: Callable[[str], bool]) -> tuple[str, ...]:
    seen = {start}
    found: list[str] = []
    ring = [start]
    while ring:
        ring = sorted({name for here in ring for name in behind.get(here, ()) if name not in seen and passable(name)})
        seen.update(ring)
        found.extend(ring)
    return tuple(found)
