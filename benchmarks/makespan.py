"""How close the schedule comes to the shortest that there can be, in simulated time.

The lower bound knows how long each task takes. Without estimates no rule does, and in these plans nothing that can be
seen says it: then every order of tasks that need neither each other nor the same files takes as long on average, and
dependencies and locks only make it longer. "Free tasks" are the same tasks without them: no rule beats that on average
(decision 0136).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from random import Random
from statistics import median, quantiles

from benchmarks import Figure, Report
from benchmarks.plans import Sample, compute_lower_bound, draw_plan
from blueflame.model.task import TaskState
from blueflame.session.scheduling.ready_queue import ReadyQueue

PLANS, SLOTS, VALIDATORS = 200, 4, 2
SIZES = (20, 40, 80, 160)  # tasks
SMALL = {"PLANS": 4}
REVIEW = 0.15  # of the time that the work took


def run() -> Report:
    figures: list[Figure] = []
    for estimated in (True, False):
        plans = [draw_plan(Random(seed), 20 + seed % 60, estimated=estimated) for seed in range(PLANS)]
        known = "estimates" if estimated else "no estimates"
        figures += _build_figures(f"flow, {known}", plans, simulate_flow, aim=1.05)
        if not estimated:
            figures += [*_build_floor(plans), *(_build_size(tasks) for tasks in SIZES)]
        figures += _build_figures(f"barrier, {known}", plans, simulate_barrier)
    about = f"{PLANS} random plans, {SLOTS} workers: time until all is worked on and validated, over the lower bound"
    return Report(name="makespan", about=about, figures=tuple(figures))


def _build_figures(
    name: str, plans: list[Sample], mode: Callable[[Sample], float], aim: float | None = None
) -> tuple[Figure, ...]:
    ratios = [mode(plan) / _compute_bound(plan) for plan in plans]
    assert min(ratios) > 1 - 1e-9, "a schedule is shorter than the bound"
    return (
        Figure(name=f"{name}: median", value=median(ratios), unit="x", aim=aim),
        Figure(name=f"{name}: p95", value=quantiles(ratios, n=20)[-1], unit="x"),
    )


def _build_floor(plans: list[Sample]) -> tuple[Figure, ...]:
    bounds = [_compute_bound(plan) for plan in plans]
    free = median(simulate_flow(_free_tasks(plan)) / bound for plan, bound in zip(plans, bounds, strict=True))
    bare = median(max(simulate_work(_free_tasks(plan)).values()) / compute_lower_bound(plan, SLOTS) for plan in plans)
    real = median(simulate_flow(plan) / bound for plan, bound in zip(plans, bounds, strict=True))
    return (
        Figure(name="work, no estimates, free tasks: median", value=bare, unit="x"),
        Figure(name="flow, no estimates, free tasks: median", value=free, unit="x"),
        Figure(name="flow, no estimates: over free tasks", value=real / free, unit="x", aim=1.05),
    )


def _build_size(tasks: int) -> Figure:
    plans = [draw_plan(Random(seed), tasks, estimated=False) for seed in range(PLANS)]
    ratio = median(simulate_flow(plan) / _compute_bound(plan) for plan in plans)
    return Figure(name=f"flow, no estimates, {tasks} tasks: median", value=ratio, unit="x")


def _compute_bound(plan: Sample) -> float:
    return compute_lower_bound(plan, SLOTS, REVIEW, VALIDATORS)


def _free_tasks(plan: Sample) -> Sample:
    tasks = (replace(task, dependencies=(), file_locks=(task.id,)) for task in plan.tasks)
    return replace(plan, tasks=tuple(tasks))


def simulate_flow(plan: Sample) -> float:
    """Each task is validated as soon as its work is done."""
    return _simulate_validation(simulate_work(plan), plan)


def simulate_barrier(plan: Sample) -> float:
    """Validation begins when all work is done."""
    ends = simulate_work(plan)
    return _simulate_validation(dict.fromkeys(ends, max(ends.values())), plan)


def simulate_work(plan: Sample) -> Mapping[str, float]:
    """When the work on each task ends."""
    queue = ReadyQueue(plan.tasks)
    running: list[tuple[float, str]] = []
    ends: dict[str, float] = {}
    now = 0.0
    while True:
        for name in queue.pick(SLOTS - len(running)):
            queue.set_state(name, TaskState.CLAIMED)
            heappush(running, (now + plan.minutes[name], name))
        if not running:
            break
        now, name = heappop(running)
        ends[name] = now
        queue.set_state(name, TaskState.DONE)
    assert len(ends) == len(plan.tasks), "every task of a checked plan comes to its turn"
    return ends


def _simulate_validation(ready: Mapping[str, float], plan: Sample) -> float:
    """When the last validation ends, if each may begin at its time and validators are few."""
    free = [0.0] * VALIDATORS
    for at, name in sorted((at, name) for name, at in ready.items()):
        heappush(free, max(at, heappop(free)) + REVIEW * plan.minutes[name])
    return max(free)
