from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from blueflame.model.attempt import VALIDATOR, WORKER, Attempt, Duty
from blueflame.model.event import AttemptEnded, AttemptIntended, JournalEntry, SessionEnded, StopRequested, TaskMoved
from blueflame.model.limits import Capacity, Limits
from blueflame.model.task import Cause, TaskState
from blueflame.session.decide import next_events
from blueflame.session.effects import (
    AskGate,
    AttendAttempt,
    BuildChangeset,
    CancelAttempt,
    CrossBoundary,
    DiagnoseTask,
    Effect,
    LandChangeset,
    RunHook,
    effects_due,
)
from blueflame.session.replay import apply_event
from blueflame.session.state import HookDue
from blueflame.testing.simulation import Simulation, build_opening, request_stop
from support.session_examples import FLOW, Outcomes, begun, events, reported, task

CAPACITY = Capacity(agents=99)


def test_the_first_thing_is_a_plan() -> None:
    world = begun(Outcomes(task(1)))
    (intended,) = next_events(world.session, CAPACITY)
    assert isinstance(intended, AttemptIntended)
    assert (intended.attempt.role, intended.attempt.subject) == ("planner", "plan")
    assert effects_due(world.session) == ()


def test_a_planner_that_talks_with_a_person_has_all_the_time() -> None:
    limits = Limits(interactive_planning=True, role_timeouts={"planner": 60.0, "worker": 70.0})
    attempts = [each.attempt for each in events(reported(Outcomes(task(1)), limits=limits), AttemptIntended)]
    assert [(each.role, each.interactive, each.timeout) for each in attempts[:2]] == [
        ("planner", True, 0.0),
        ("worker", False, 70.0),
    ]


def test_what_should_be_under_way_follows_the_session_through_a_cycle() -> None:
    seen: list[Effect] = []

    class Watching(Outcomes):
        def pick_pause(self, effect: Effect) -> float:
            seen.append(effect)
            return 0.0

        def pick_minutes(self, attempt: Attempt) -> float:
            seen.append(AttendAttempt(attempt.id))
            return 1.0

    prefix = reported(Watching(task(1)), limits=Limits(hooks=("post_merge",))).session.id
    assert seen == [
        AttendAttempt(f"{prefix}.plan.planner.1"),
        AskGate("plan"),
        CrossBoundary(1, ""),
        CrossBoundary(1, "work", 0),
        AttendAttempt(f"{prefix}.task-001.worker.1"),
        CrossBoundary(1, "validate", 1),
        DiagnoseTask("task-001", "task-001@1"),
        AttendAttempt(f"{prefix}.task-001.validator.1"),
        CrossBoundary(1, "merge", 2),
        BuildChangeset("cs-001"),
        AskGate("changeset-cs-001"),
        LandChangeset("cs-001"),
        RunHook(HookDue("post_merge", "post_merge:cs-001", "cs-001")),
    ]


@pytest.mark.parametrize(("workers", "machine", "at_once"), [(2, 99, 2), (4, 3, 3), (4, 1, 1)])
def test_no_more_agents_work_than_are_allowed_and_borne(workers: int, machine: int, at_once: int) -> None:
    """SCHED-05, SCHED-13."""
    outcomes = Outcomes(*(task(n) for n in range(1, 8)))
    world = Simulation(outcomes, [build_opening(workflow=FLOW, limits=Limits(workers=workers))], agents=machine)
    most = 0
    for _ in iter(world.step, False):
        most = max(most, world.session.count_running(Duty.MAKE))
    assert most <= at_once
    begins = [turn.begins for turn in world.schedule if turn.attempt.role == WORKER]
    assert begins.count(min(begins)) == at_once


def test_tasks_are_claimed_by_priority_then_by_the_length_of_what_waits_behind_them() -> None:
    """SCHED-02."""
    world = reported(Outcomes(task(1), task(2), task(3, 2), task(4, priority=1)), limits=Limits(workers=1))
    claims = [event.task for event in events(world, TaskMoved) if event.cause is Cause.CLAIM]
    assert claims == ["task-004", "task-002", "task-001", "task-003"]


def test_reviews_go_by_group_then_by_priority() -> None:
    """SCHED-15: groups in dependency order, and within a group by priority."""
    plan = (task(1, 4, group="b"), task(2, group="a", priority=5), task(3, group="a", priority=2), task(4, group="a"))
    world = reported(Outcomes(*plan), limits=Limits(validators=1))
    reviewed = [event.attempt.subject for event in events(world, AttemptIntended) if event.attempt.role == VALIDATOR]
    assert reviewed == ["task-003", "task-004", "task-002", "task-001"]


def test_no_more_validators_than_allowed() -> None:
    """VAL-01."""
    world = begun(Outcomes(*(task(n) for n in range(1, 8))), limits=Limits(workers=7, validators=2))
    most = 0
    for _ in iter(world.step, False):
        most = max(most, world.session.count_running(Duty.JUDGE))
    assert most <= 2


def test_in_flow_a_newcomer_does_not_overtake_one_whose_checks_are_running() -> None:
    class Slow(Outcomes):
        def pick_pause(self, effect: Effect) -> float:
            return 50.0 if isinstance(effect, DiagnoseTask) else 0.0

    minutes = {f"task-00{n}.worker.1": 10.0 - n for n in range(1, 8)}
    world = begun(Slow(*(task(n) for n in range(1, 8)), minutes=minutes), FLOW, Limits(workers=9, validators=1))
    most = 0
    for _ in iter(world.step, False):
        most = max(most, sum(isinstance(effect, DiagnoseTask) for effect in world._running))
    assert most == 1


def test_a_task_or_its_group_can_have_a_validator_model_of_its_own() -> None:
    own = replace(task(1, group="payments"), validator_model="strongest")
    limits = Limits(group_validator_models={"payments": "strong"}, role_models={VALIDATOR: "plain"})
    world = reported(Outcomes(own, task(2, group="payments"), task(3)), limits=limits)
    reviews = [event.attempt for event in events(world, AttemptIntended) if event.attempt.role == VALIDATOR]
    models = {attempt.subject: attempt.model for attempt in reviews}
    assert models == {"task-001": "strongest", "task-002": "strong", "task-003": "plain"}


def test_a_task_can_have_a_worker_model_of_its_own() -> None:
    own = replace(task(1), model="strongest")
    world = reported(Outcomes(own, task(2)), limits=Limits(role_models={WORKER: "plain"}))
    works = [event.attempt for event in events(world, AttemptIntended) if event.attempt.role == WORKER]
    assert {attempt.subject: attempt.model for attempt in works} == {"task-001": "strongest", "task-002": "plain"}


def test_live_attempts_have_slots_of_their_own_and_free_ones_are_used_again() -> None:
    world = reported(Outcomes(*(task(n) for n in range(1, 6))), limits=Limits(workers=2))
    slots = {r.attempt.slot for r in world.session.attempts.values()}
    assert slots == {0, 1}


def test_while_stopping_nothing_is_decided_and_only_agents_are_seen_to() -> None:
    world = begun(Outcomes(task(1), task(2), minutes={"task-001.worker.1": 50}), limits=Limits(workers=1))
    world.send(partial(request_stop, now=True), at=9.0)
    while not world.session.stopping:
        world.step()
    (live,) = world.session.live
    assert next_events(world.session, CAPACITY) == ()
    assert effects_due(world.session) == (AttendAttempt(live), CancelAttempt(live, "stopped by a person", now=True))


def test_agents_that_are_left_alone_are_only_attended() -> None:
    world = begun(Outcomes(task(1), minutes={"task-001.worker.1": 50}))
    world.send(lambda _session: [StopRequested(reason="enough")], at=9.0)
    while not world.session.stopping:
        world.step()
    assert effects_due(world.session) == tuple(AttendAttempt(name) for name in world.session.live)


def test_an_ended_session_only_runs_the_hooks_that_are_due() -> None:
    world = begun(Outcomes(task(1)), limits=Limits(hooks=("post_merge",)))
    while not world.session.ended:
        world.step()
    assert next_events(world.session, CAPACITY) == ()
    assert [type(effect) for effect in effects_due(world.session)] in ([], [RunHook])


@pytest.mark.parametrize("ending", [SessionEnded(outcome="abandoned"), StopRequested(reason="enough")])
def test_a_stopping_session_has_no_new_effects(ending: SessionEnded | StopRequested) -> None:
    world = begun(Outcomes(task(1)))
    apply_event(world.session, JournalEntry(world.session.seq + 1, 0.0, ending))
    assert next_events(world.session, CAPACITY) == ()
    assert effects_due(world.session) == ()


def test_asking_twice_gives_the_same_answer() -> None:
    world = begun(Outcomes(task(1), task(2, 1), task(3)), FLOW)
    while world.step():
        assert next_events(world.session, CAPACITY) == next_events(world.session, CAPACITY)
        assert effects_due(world.session) == effects_due(world.session)


def test_a_validator_whose_verdict_was_lost_in_a_crash_is_asked_again() -> None:
    """Its end was written down and its verdict was not: the task must not wait for ever."""
    world = reported(Outcomes(task(1)))
    cut = next(
        each.seq
        for each in world.journal
        if isinstance(each.event, AttemptEnded) and ".validator." in each.event.attempt
    )
    again = Simulation(world.outcomes, world.journal[:cut]).run()
    assert again.session.outcome == "completed"
    assert again.session.attempts_on["task-001", VALIDATOR] == 2


def test_the_index_of_states_has_every_task() -> None:
    world = reported(Outcomes(task(1), task(2)))
    assert world.session.list_in_state(TaskState.MERGED) == ("task-001", "task-002")
    assert world.session.all_finished
    assert world.session.unfinished == ()
