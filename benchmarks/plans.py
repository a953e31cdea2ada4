"""Random plans, the same for the same seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from blueflame.model.task import Task
from blueflame.paths.locks import parse_task_locks


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    tasks: tuple[Task, ...]
    minutes: Mapping[str, float]  # how long each really takes


def draw_plan(random: Random, size: int, *, estimated: bool) -> Sample:
    """Tasks of equal priority: a third with dependencies on earlier ones, locks on files, pairs and directories."""
    names = [f"task-{n:05}" for n in range(1, size + 1)]
    minutes = {name: round(random.lognormvariate(1.5, 0.6), 2) for name in names}
    tasks = tuple(
        Task(
            id=name,
            title=name,
            description="",
            dependencies=_draw_dependencies(random, names[max(0, n - 40) : n]),
            file_locks=_draw_locks(random, size),
            estimate_minutes=minutes[name] if estimated else None,
        )
        for n, name in enumerate(names)
    )
    return Sample(tasks=tasks, minutes=minutes)


def _draw_dependencies(random: Random, earlier: list[str]) -> tuple[str, ...]:
    count = random.choice((0, 0, 0, 0, 1, 1, 2))
    return tuple(sorted(random.sample(earlier, min(count, len(earlier)))))


def _draw_locks(random: Random, size: int) -> tuple[str, ...]:
    """Mostly one or two files; now and then a whole directory, which keeps everything in it apart."""
    directories = max(4, size // 3)
    directory = f"src/part{random.randrange(directories)}"
    if random.random() < 0.15:
        return (f"{directory}/",)
    files = random.choice((1, 1, 2))
    return tuple(f"src/part{random.randrange(directories)}/file{random.randrange(3)}.py" for _ in range(files))


def compute_lower_bound(plan: Sample, slots: int) -> float:
    """No schedule is shorter: the critical path, the work over the slots, and the busiest file."""
    return max(_measure_critical_path(plan), sum(plan.minutes.values()) / slots, _measure_busiest_lock(plan))


def _measure_critical_path(plan: Sample) -> float:
    ends: dict[str, float] = {}
    for task in plan.tasks:  # a dependency always comes earlier in the list
        ends[task.id] = plan.minutes[task.id] + max((ends[need] for need in task.dependencies), default=0.0)
    return max(ends.values())


def _measure_busiest_lock(plan: Sample) -> float:
    """All tasks that lock a path or a directory above it exclude each other: their time adds up."""
    load: dict[tuple[str, ...], float] = {}
    for task in plan.tasks:
        for path in parse_task_locks(task):
            load[path] = load.get(path, 0.0) + plan.minutes[task.id]
    return max(sum(load.get(path[:depth], 0.0) for depth in range(len(path) + 1)) for path in load)
