"""What one event costs to take in and answer, as the plan grows: for the ready queue alone, and for whole sessions."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from time import process_time  # another process must not count

from benchmarks import Figure, Report
from benchmarks.plans import Sample, draw_plan
from blueflame.model.attempt import Attempt, Duty, Ending
from blueflame.model.limits import Limits
from blueflame.model.settings.built_in import BUILT_IN_PIPELINES, BUILT_IN_ROLES, PIPELINE
from blueflame.model.task import Task, TaskState
from blueflame.model.workflow import Workflow, build_stages
from blueflame.session.scheduling.ready_queue import ReadyQueue
from blueflame.testing.simulated_outcomes import SimulatedOutcomes, hash_to_fraction
from blueflame.testing.simulation import Simulation, build_opening

SIZES = (100, 1_000, 10_000)
AIMS = {100: 200.0, 1_000: 1_000.0, 10_000: 5_000.0}  # microseconds
MAX_GROWTH = 2.0  # times, from the smallest plan to the largest
SLOTS = 8
EVENTS = 20_000  # small plans are played over and over, so that all are measured equally long
TASKS_PER_GROUP = 5
SMALL = {"SIZES": (100,), "EVENTS": 2_000}
FAILS, REFUSED, REVIEW = 0.05, 0.05, 0.15  # of the attempts, of the reviews, of the time that the work took


def run() -> Report:
    figures = [
        *_build_figures("ready queue", {size: _measure_cost(size) for size in SIZES}),
        *_build_growth("session with a barrier", {size: _measure_session(size, BARRIER) for size in SIZES}),
        *_build_growth("session in flow", {size: _measure_session(size, FLOW) for size in SIZES}),
        *_build_growth("pipeline default", {size: _measure_session(size, DEFAULT) for size in SIZES}),
    ]
    about = "processor time to apply an event and to decide and follow up what comes next"
    return Report(name="deciding", about=about, figures=tuple(figures))


def _build_figures(what: str, costs: dict[int, float]) -> Iterator[Figure]:
    for size, cost in costs.items():
        yield Figure(name=f"{what}: one event, {size:,} tasks", value=cost * 1e6, unit="us", aim=AIMS[size])


def _build_growth(what: str, costs: dict[int, float]) -> Iterator[Figure]:
    """Also say how much dearer an event is in the largest plan than in the smallest."""
    yield from _build_figures(what, costs)
    small, large = min(costs), max(costs)
    name = f"{what}: {large:,} against {small:,} tasks"
    yield Figure(name=name, value=costs[large] / costs[small], unit="times", aim=MAX_GROWTH)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _measure_cost(size: int) -> float:
    """Seconds per event, the least of three rounds: the others were disturbed."""
    return min(_measure_round(size) for _ in range(3))


def _measure_round(size: int) -> float:
    rounds = max(1, EVENTS // (2 * size))
    queues = [
        (plan, ReadyQueue(plan)) for plan in (draw_plan(Random(n), size, estimated=True).tasks for n in range(rounds))
    ]
    with _pause_garbage_collection():
        begun = process_time()
        events = sum(_play_plan(plan, queue) for plan, queue in queues)
        return (process_time() - begun) / events


def _play_plan(plan: tuple[Task, ...], queue: ReadyQueue) -> int:
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


class Mishaps(SimulatedOutcomes):
    """Work takes as long as it takes; now and then it fails or is refused."""

    def __init__(self, plan: Sample, seed: int) -> None:
        groups = max(1, len(plan.tasks) // TASKS_PER_GROUP)
        super().__init__([replace(task, cohesion_group=f"g{n % groups}") for n, task in enumerate(plan.tasks)])
        self.lengths = plan.minutes
        self.seed = seed

    def pick_minutes(self, attempt: Attempt) -> float:
        return self.lengths.get(attempt.subject, 1.0) * (1.0 if attempt.duty is Duty.MAKE else REVIEW)

    def pick_ending(self, attempt: Attempt) -> Ending:
        return Ending.FAILED if hash_to_fraction(self.seed, "fails", attempt.id) < FAILS else Ending.PASSED

    def approves(self, attempt: Attempt) -> bool:
        return hash_to_fraction(self.seed, "refused", attempt.id) >= REFUSED


BARRIER, FLOW = Workflow(barrier=True), Workflow(barrier=False)
_STAGES = ("plan", *BUILT_IN_PIPELINES[PIPELINE]["stages"])
DEFAULT = Workflow(
    name=PIPELINE,
    stages=_STAGES,
    barrier=False,
    steps=build_stages(_STAGES, {name: Duty(role["duty"]) for name, role in BUILT_IN_ROLES.items()}),
)
"""The built-in pipeline after a plan: alone, it has one task."""


def _measure_session(size: int, workflow: Workflow) -> float:
    """Seconds per event of sessions from the request to the last landing. The world around them is counted too."""
    limits = Limits(workers=SLOTS, validators=SLOTS // 2, max_cycles=20)
    spent, events = 0.0, 0
    for seed in range(max(1, EVENTS // (20 * size))):
        outcomes = Mishaps(draw_plan(Random(seed), size, estimated=True), seed)
        world = Simulation(outcomes, [build_opening(workflow=workflow, limits=limits)])
        with _pause_garbage_collection():
            begun = process_time()
            world.run()
            spent += process_time() - begun
        events += len(world.journal)
        assert world.session.outcome == "completed", world.session.outcome_reason
    return spent / events
