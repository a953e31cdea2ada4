"""What one event costs to take in and answer, as the plan grows."""

from __future__ import annotations

import gc
from random import Random
from time import perf_counter

from benchmarks import Figure, Report
from benchmarks.plans import sample
from blueflame.model.task import Task, TaskState
from blueflame.rules.readiness import ReadyQueue

SIZES = (100, 1_000, 10_000)
SLOTS = 8
EVENTS = 20_000  # small plans are played over and over, so that all are measured equally long


def run() -> Report:
    costs = {size: _cost(size) for size in SIZES}
    figures = [Figure(name=f"one event, {size:,} tasks", value=cost * 1e6, unit="us") for size, cost in costs.items()]
    growth = Figure(name="10,000 tasks over 100 tasks", value=costs[10_000] / costs[100], unit="x", aim=3.0)
    about = "an event is applied to the ready queue and the queue is asked what to claim"
    return Report(name="deciding", about=about, figures=(*figures, growth))


def _cost(size: int) -> float:
    """Seconds per event, the least of three rounds: the others were disturbed."""
    return min(_round(size) for _ in range(3))


def _round(size: int) -> float:
    rounds = max(1, EVENTS // (2 * size))
    queues = [
        (plan, ReadyQueue(plan)) for plan in (sample(Random(n), size, estimated=True).tasks for n in range(rounds))
    ]
    gc.collect()
    gc.disable()
    begun = perf_counter()
    events = sum(_play(plan, queue) for plan, queue in queues)
    spent = perf_counter() - begun
    gc.enable()
    return spent / events


def _play(plan: tuple[Task, ...], queue: ReadyQueue) -> int:
    """Every task is claimed and done, the oldest first; the queue is asked after every event."""
    events, running = 0, list[str]()
    while picked := queue.pick(SLOTS - len(running)) or running[:1]:
        name = picked[0]
        if name in running:
            running.remove(name)
            queue.set_state(name, TaskState.DONE)
        else:
            running.append(name)
            queue.set_state(name, TaskState.CLAIMED)
        events += 1
    assert events == 2 * len(plan)
    return events
