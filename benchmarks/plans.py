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


def compute_lower_bound(plan: Sample, slots: int, review: float = 0.0, validators: int = 1) -> float:
    """No schedule is shorter: the critical path, the work over the slots, and the busiest file.

    `review`: how long the review of a task takes, as a part of its work. It begins when the work has ended, and it is
    work of a validator. So the schedule ends no sooner than

    - the work of a task on which the longest path ends, and its review: a dependent waits for no review here;
    - the work that excludes each other by a lock, and the shortest review among those tasks: one of them is the last;
    - the work and the time after the last task of each slot, over the slots. Of the tasks that are last in their slots
      each is reviewed after it, and reviews by the same validator come one after the other. The time from the end of
      the work to the end of the schedule, summed over these tasks, is least if they are those with the shortest
      reviews and these are spread evenly, the shortest last. A slot without any task is empty for longer than that.
    """
    reviews = {name: review * minutes for name, minutes in plan.minutes.items()}
    shortest = sorted(reviews.values())[:slots]
    waits = [-(-(len(shortest) - n) // validators) for n in range(len(shortest))]  # how many of them wait for it
    after = sum(wait * minutes for wait, minutes in zip(waits, shortest, strict=True))
    work = (sum(plan.minutes.values()) + after) / slots
    return max(_measure_critical_path(plan, reviews), work, _measure_busiest_lock(plan, reviews))


def _measure_critical_path(plan: Sample, reviews: Mapping[str, float]) -> float:
    ends: dict[str, float] = {}
    for task in plan.tasks:  # a dependency always comes earlier in the list
        ends[task.id] = plan.minutes[task.id] + max((ends[need] for need in task.dependencies), default=0.0)
    return max(end + reviews[name] for name, end in ends.items())


def _measure_busiest_lock(plan: Sample, reviews: Mapping[str, float]) -> float:
    """All tasks that lock a path or a directory above it exclude each other: their time adds up."""
    holders: dict[tuple[str, ...], set[str]] = {}
    for task in plan.tasks:
        for path in parse_task_locks(task):
            holders.setdefault(path, set()).add(task.id)
    groups = [set().union(*(holders.get(path[:n], ()) for n in range(len(path) + 1))) for path in holders]
    return max(sum(plan.minutes[name] for name in group) + min(reviews[name] for name in group) for group in groups)
