from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import (
    AttemptCancelled,
    AttemptIntended,
    CycleEnded,
    CycleStarted,
    HookRan,
    PlanApproved,
    SessionEnded,
    WaveStarted,
)
from blueflame.model.limits import REVIEWED, Limits
from blueflame.model.task import TaskState
from blueflame.model.workflow import Workflow
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation, request_proceed, request_stop
from support.session_examples import (
    BARRIER,
    FLOW,
    SINGLE,
    Outcomes,
    begun,
    events,
    moves,
    reported,
    states,
    task,
)


def waves(world: Simulation) -> list[tuple[int, str]]:
    return [(event.cycle, event.stage) for event in events(world, WaveStarted)]


@pytest.mark.parametrize("workflow", [BARRIER, FLOW])
def test_a_whole_cycle_in_which_all_goes_well(workflow: Workflow) -> None:
    """T19, SESS-05."""
    world = reported(Outcomes(task(1), task(2, 1), task(3)), workflow)
    assert set(states(world).values()) == {TaskState.MERGED}
    assert events(world, SessionEnded) == [SessionEnded(outcome="completed")]
    assert world.session.cycle == 1


def test_with_a_barrier_no_review_begins_before_all_work_is_done() -> None:
    """SESS-04, VAL-12."""
    world = reported(Outcomes(task(1), task(2), minutes={"task-002.worker.1": 9}))
    assert waves(world) == [(1, "work"), (1, "validate"), (1, "merge")]
    work = [turn.ends for turn in world.schedule if turn.attempt.role == "worker"]
    assert all(turn.begins >= max(work) for turn in world.schedule if turn.attempt.role == "validator")


def test_without_a_barrier_a_review_begins_as_soon_as_it_may() -> None:
    world = reported(Outcomes(task(1), task(2), minutes={"task-002.worker.1": 9}), FLOW)
    assert waves(world) == []
    assert min(turn.begins for turn in world.schedule if turn.attempt.role == "validator") == 2.0


def test_deferred_tasks_are_worked_on_in_the_same_wave() -> None:
    """SCHED-09, T23: two that share a lock run one after the other, in one wave."""
    world = reported(Outcomes(task(1, locks=("pkg/middleware/",)), task(2, locks=("pkg/middleware",))))
    turns = {turn.attempt.subject: turn for turn in world.schedule if turn.attempt.role == "worker"}
    assert turns["task-002"].begins >= turns["task-001"].ends
    assert world.session.cycle == 1


@pytest.mark.verification(29)
def test_when_all_work_fails_the_later_waves_are_skipped() -> None:
    """T29, SESS-07."""
    endings = {f"task-00{n}.worker.{k}": Ending.FAILED for n in (1, 2) for k in range(1, 4)}
    world = reported(Outcomes(task(1), task(2), endings=endings, answers={"session": None}))
    assert waves(world) == [(1, "work")]
    assert list(world.session.open_gates) == ["session-cycle-1"]


@pytest.mark.verification(28)
def test_the_cycles_end_at_their_limit() -> None:
    """T28, SESS-06."""
    world = reported(Outcomes(task(1), answers={"changeset": "reject"}), limits=Limits(max_cycles=3))
    assert len(events(world, CycleStarted)) == len(events(world, CycleEnded)) == 3
    (end,) = events(world, SessionEnded)
    assert (end.outcome, end.reason) == ("max_cycles", "not finished after 3 cycles: task-001")


def test_the_tasks_of_each_later_cycle_start_from_the_newest_base() -> None:
    world = reported(Outcomes(task(1, group="a"), task(2, group="b"), answers={"changeset-cs-002": "reject"}))
    bases = [event.base_sha for event in events(world, CycleStarted)]
    assert bases[0] == "base"
    assert bases[1].startswith("cs-001 on ")


def test_going_on_with_what_is_done_leaves_the_rest_for_later() -> None:
    world = begun(Outcomes(task(1), task(2), minutes={"task-002.worker.1": 50}))
    world.send(request_proceed, at=10.0)
    world.run()
    landed = {name: n for n, (name, record) in enumerate(world.session.changesets.items())}
    assert landed == {"cs-001": 0, "cs-002": 1}
    assert world.session.outcome == "completed"
    assert world.session.cycle == 2  # what was still running is validated by the next cycle


def test_going_on_starts_nothing_new() -> None:
    world = begun(
        Outcomes(task(1), task(2), minutes={"task-001.worker.1": 50}, answers={"session": None}),
        FLOW,
        Limits(workers=1),
    )
    world.send(request_proceed, at=10.0)
    world.run()
    assert states(world) == {"task-001": TaskState.MERGED, "task-002": TaskState.PENDING}
    assert list(world.session.open_gates) == ["session-cycle-1"]


@pytest.mark.parametrize("workflow", [BARRIER, FLOW])
def test_going_on_and_killing_sends_back_what_was_left_behind(workflow: Workflow) -> None:
    outcomes = Outcomes(
        task(1, group="a"), task(2, group="b"), minutes={"task-002.worker.1": 50}, answers={"session": None}
    )
    world = begun(outcomes, workflow)
    world.send(partial(request_proceed, kill=True), at=10.0)
    world.run()
    assert states(world) == {"task-001": TaskState.MERGED, "task-002": TaskState.REQUEUED}
    assert world.makespan < 50
    assert world.session.tasks["task-002"].retries == 0
    assert world.session.tasks["task-002"].history[-1].notes == "left behind"


def test_a_stop_releases_tasks_without_a_retry_and_a_resume_continues() -> None:
    world = begun(Outcomes(task(1), task(2), minutes={"task-002.worker.1": 50}))
    world.send(request_stop, at=10.0)
    world.run()
    assert states(world) == {"task-001": TaskState.DONE, "task-002": TaskState.PENDING}
    assert world.session.tasks["task-002"].retries == 0
    assert not world.session.tasks["task-002"].history
    again = world.resume().run()
    assert again.session.outcome == "completed"
    assert again.session.cycle == 1


def test_a_stop_that_is_cut_off_does_not_cost_the_task_its_cycle() -> None:
    """The orchestrator dies between asking an agent to end and hearing that it did."""
    world = begun(Outcomes(task(1), minutes={"task-001.worker.1": 50}))
    world.send(request_stop, at=10.0)
    while not world.session.halted:
        world.step()
    again = Simulation(world.outcomes, world.journal).run()
    assert moves(again, "task-001") == ["claim", "release", "claim", "complete", "validate", "land"]
    assert again.session.cycle == 1


def test_an_agent_that_a_person_kills_is_not_started_again_at_once() -> None:
    world = begun(Outcomes(task(1), minutes={"task-001.worker.1": 50}, answers={"session": None}))
    world.send(
        lambda session: [AttemptCancelled(attempt=name, reason="killed by Ада") for name in session.live], at=10.0
    )
    world.run()
    assert states(world) == {"task-001": TaskState.REQUEUED}
    assert world.session.tasks["task-001"].reason == "killed by Ада"


def test_a_workflow_without_a_planner_works_on_the_request_itself() -> None:
    world = reported(SimulatedOutcomes(), SINGLE)
    (event,) = events(world, PlanApproved)
    assert [one.title for one in event.tasks] == ["make it so"]
    assert [one.attempt.role for one in events(world, AttemptIntended)] == ["worker"]
    assert world.session.outcome == "completed"


def test_a_workflow_without_judges_passes_what_is_done() -> None:
    world = reported(Outcomes(task(1)), Workflow(stages=("plan", "work", "merge")))
    assert world.session.outcome == "completed"
    assert world.session.tasks["task-001"].verdict == "pass"


@pytest.mark.parametrize("barrier", [True, False])
def test_a_workflow_that_lands_nothing_still_ends_its_cycle(barrier: bool) -> None:
    stages = ("plan", "work", "validate")
    world = reported(Outcomes(task(1), answers={"session": None}), Workflow(stages=stages, barrier=barrier))
    assert states(world) == {"task-001": TaskState.VALIDATED}
    assert list(world.session.open_gates) == ["session-cycle-1"]


def test_checks_and_review_can_be_two_waves_with_one_hook() -> None:
    stages = ("plan", "work", "check", "validate", "merge")
    limits = Limits(hooks=("pre_validation",))
    world = reported(Outcomes(task(1)), Workflow(stages=stages), limits)
    assert waves(world) == [(1, "work"), (1, "check"), (1, "validate"), (1, "merge")]
    assert [event.key for event in events(world, HookRan)] == ["pre_validation:1"]


def test_dependents_can_wait_for_the_verdict_and_work_comes_again() -> None:
    limits = Limits(dependents=REVIEWED, hooks=("pre_validation",))
    world = reported(Outcomes(task(1), task(2, 1), task(3, 2)), limits=limits)
    assert waves(world) == [*[(1, "work"), (1, "validate")] * 3, (1, "merge")]
    assert set(states(world).values()) == {TaskState.MERGED}
    assert world.session.cycle == 1
    assert [event.key for event in events(world, HookRan)] == [
        "pre_validation:1",
        "pre_validation:1:2",
        "pre_validation:1:3",
    ]


@pytest.mark.parametrize("workflow", [BARRIER, FLOW])
def test_nothing_is_built_on_a_result_that_a_reviewer_rejects(workflow: Workflow) -> None:
    outcomes = Outcomes(task(1), task(2, 1), refused=("task-001.validator.1",), answers={"validation": "drop"})
    world = reported(outcomes, workflow, Limits(dependents=REVIEWED))
    assert [event.attempt.subject for event in events(world, AttemptIntended) if event.attempt.role == "worker"] == [
        "task-001"
    ]


def test_a_task_that_waits_for_a_verdict_says_so() -> None:
    world = reported(
        Outcomes(task(1), task(2, 1), refused=("task-001.validator.1",), answers={"validation": None}),
        limits=Limits(dependents=REVIEWED),
    )
    assert world.session.queue.explain_waiting("task-002") == "waits for the review of task-001"


def test_going_on_does_not_come_back_to_work_in_the_same_cycle() -> None:
    world = begun(
        Outcomes(task(1), task(2), task(3, 1), minutes={"task-002.worker.1": 50}, answers={"session": None}),
        limits=Limits(dependents=REVIEWED),
    )
    world.send(request_proceed, at=10.0)
    world.run()
    assert waves(world) == [(1, "work"), (1, "validate"), (1, "merge")]


def test_reviews_go_in_dependency_order() -> None:
    """The urgent task needs the other one, so its review comes after the other's."""
    plan = (replace(task(1, 2), priority=1), replace(task(2), priority=5))
    world = reported(Outcomes(*plan), limits=Limits(validators=1))
    reviews = [event.attempt.subject for event in events(world, AttemptIntended) if event.attempt.role == "validator"]
    assert reviews == ["task-002", "task-001"]
