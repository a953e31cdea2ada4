from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import WORKER, Duty, Ending
from blueflame.model.event import (
    AttemptIntended,
    GateWithdrawn,
    OrchestratorStarted,
    RuntimeParked,
    RuntimeResumed,
    StopRequested,
)
from blueflame.model.exit_codes import ExitCode
from blueflame.model.gate import GateKind
from blueflame.model.limits import Capacity, Limits
from blueflame.model.task import TaskState
from blueflame.session.decide import next_events
from blueflame.session.effects import AwaitRuntime, effects_due
from blueflame.session.gates.questions import open_rate_limit_gate
from blueflame.session.next_try import JITTER, compute_wait
from blueflame.session.rate_limits import (
    ASK_AFTER_OUTAGES,
    FIRST_WAIT_SECONDS,
    MAX_WAIT_SECONDS,
    describe_account_fix,
    describe_parked,
    should_ask,
)
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation
from support.session_examples import Outcomes, begun, events, moves, states, task
from support.session_examples import reported as story

HOUR = 3600.0


def wait_for(times: int, name: str) -> float:
    return compute_wait(times, name, first=FIRST_WAIT_SECONDS, most=MAX_WAIT_SECONDS)


def parked(kind: str = "rate_limit", until: float | None = None, agents: int = 3, outages: int = 0) -> RuntimeParked:
    return RuntimeParked(
        runtime="scripted", kind=kind, reason="429", until=until, agents=agents, outages=outages
    )  # fmt: skip


def outages(*names: str) -> dict[str, Ending]:
    return dict.fromkeys(names, Ending.OUTAGE)


def test_a_worker_whose_model_was_away_is_tried_again_after_a_rest_and_no_retry_is_counted() -> None:
    world = story(Outcomes(task(1), endings=outages("task-001.worker.1")), limits=Limits(max_retries=0))
    assert moves(world, "task-001")[:3] == ["claim", "release", "claim"]
    assert world.session.tasks["task-001"].retries == 0
    assert world.session.outcome == "completed"
    turns = [turn for turn in world.schedule if turn.attempt.role == WORKER]
    assert turns[1].begins - turns[0].ends == wait_for(1, turns[0].attempt.id)
    assert [event.outages for event in events(world, RuntimeParked)] == [1]
    assert len(events(world, RuntimeResumed)) == 1


@pytest.mark.parametrize("name", ["task-001.validator.1", "plan.planner.1"])
def test_reviewers_and_planners_whose_model_was_away_are_asked_again(name: str) -> None:
    world = story(Outcomes(task(1), endings=outages(name)), limits=Limits(validator_retries=0))
    assert world.session.outcome == "completed"
    assert world.session.plan_failures == ()
    assert world.session.tasks["task-001"].validator_failures == 0
    assert {gate.kind for gate in world.session.gates.values()} == {GateKind.PLAN, GateKind.CHANGESET}


def test_agents_that_give_up_together_are_one_outage() -> None:
    ends = outages("task-001.worker.1", "task-002.worker.1", "task-003.worker.1")
    world = story(Outcomes(task(1), task(2), task(3), endings=ends))
    assert [event.outages for event in events(world, RuntimeParked)] == [1]


def test_rests_double_up_to_ten_minutes_and_are_spread() -> None:
    names = [f"ses.task-{n:03}.worker.1" for n in range(50)]
    assert len({wait_for(1, name) for name in names}) > 25
    for times, plain in (
        (1, 30.0),
        (2, 60.0),
        (3, 120.0),
        (5, 480.0),
        (6, MAX_WAIT_SECONDS),
        (10_000, MAX_WAIT_SECONDS),
    ):
        assert all(plain <= wait_for(times, name) <= plain * (1 + JITTER) for name in names)
    assert wait_for(1, "a") == wait_for(1, "a") >= FIRST_WAIT_SECONDS


def test_after_some_outages_in_a_row_a_person_is_asked_and_without_an_answer_waiting_continues() -> None:
    ends = outages(*(f"task-001.worker.{n}" for n in range(1, ASK_AFTER_OUTAGES + 1)))
    world = story(Outcomes(task(1), endings=ends, answers={"rate_limit": None}))
    gate = world.session.gates["rate_limit-scripted"]
    assert gate.default == "wait"
    assert "5 times in a row" in gate.title
    assert [event.gate for event in events(world, GateWithdrawn)] == ["rate_limit-scripted"]
    assert world.session.outcome == "completed"


def test_an_attempt_that_reached_its_model_ends_the_row() -> None:
    ends = outages(*(f"task-001.worker.{n}" for n in (1, 2, 4))) | {"task-001.worker.3": Ending.FAILED}
    world = story(Outcomes(task(1), endings=ends))
    assert [event.outages for event in events(world, RuntimeParked)] == [1, 2, 1]


def test_retry_tries_at_once() -> None:
    ends = outages(*(f"task-001.worker.{n}" for n in range(1, ASK_AFTER_OUTAGES + 1)))
    world = story(Outcomes(task(1), endings=ends, answers={"rate_limit": "retry"}))
    resumed = events(world, RuntimeResumed)[-1]
    assert resumed == RuntimeResumed(runtime="scripted", reason="because", by="Ада")
    turns = [turn for turn in world.schedule if turn.attempt.role == WORKER]
    assert turns[ASK_AFTER_OUTAGES].begins == turns[ASK_AFTER_OUTAGES - 1].ends
    assert not events(world, GateWithdrawn)
    assert world.session.outcome == "completed"


def test_stop_ends_the_agents_that_wait_and_releases_their_tasks_without_blame() -> None:
    world = waiting(Limits(on_rate_limit="ask"), Outcomes(task(1), task(2), answers={"rate_limit": "stop"}))
    world.run()
    assert [event.reason for event in events(world, StopRequested)] == ["rate_limit gate answered stop by Ада"]
    assert not world.session.ended
    assert states(world) == {"task-001": TaskState.PENDING, "task-002": TaskState.PENDING}
    assert moves(world, "task-001") == ["claim", "release"]


def waiting(limits: Limits, outcomes: Outcomes) -> Simulation:
    """Workers are at it, and their model says: too much for now."""
    world = begun(outcomes, limits=limits)
    while not world.session.tasks:
        world.step()
    middle = world.now + 0.5
    world.send(lambda _session: [parked(until=middle + HOUR)], at=middle)
    return world


def test_while_a_runtime_is_parked_no_attempt_starts_and_the_session_waits() -> None:
    world = waiting(Limits(workers=1), Outcomes(task(1), task(2)))
    session = world.session
    while not session.parked:
        world.step()
    before = len(events(world, AttemptIntended))
    while session.count_running(Duty.MAKE):
        world.step()
    assert not next_events(session, Capacity(agents=9))
    assert effects_due(session) == (AwaitRuntime("scripted"),)
    assert len(events(world, AttemptIntended)) == before
    world.run()
    assert session.outcome == "completed"


@pytest.mark.parametrize(
    ("limits", "event", "asked"),
    [
        (Limits(), parked(until=HOUR), False),
        (Limits(), parked(), False),
        (Limits(on_rate_limit="ask"), parked(), True),
        (Limits(on_rate_limit="ask"), parked(kind="network"), False),
        (Limits(rate_limit_wait=HOUR), parked(until=HOUR + 1), True),
        (Limits(rate_limit_wait=HOUR), parked(until=HOUR), False),
        (Limits(rate_limit_wait=0), parked(until=1.0), True),
        (Limits(), parked(outages=1), True),
        (Limits(), parked(kind="outage", outages=ASK_AFTER_OUTAGES), True),
        (Limits(), parked(kind="outage", outages=ASK_AFTER_OUTAGES - 1), False),
    ],
)
def test_a_person_is_asked_where_they_want_to_be_and_where_waiting_is_not_reasonable(
    limits: Limits, event: RuntimeParked, asked: bool
) -> None:
    assert should_ask(limits, event, now=0.0) is asked


def test_a_gate_about_a_limit_is_withdrawn_when_the_limit_is_over() -> None:
    world = waiting(Limits(on_rate_limit="ask"), Outcomes(task(1), answers={"rate_limit": None}))
    world.run()
    assert [event.reason for event in events(world, GateWithdrawn)] == ["scripted is available again"]
    assert world.session.outcome == "completed"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (parked(), "scripted: rate-limited by the provider; 3 agents wait"),
        (parked(agents=1), "scripted: rate-limited by the provider; 1 agent waits"),
        (parked(agents=0), "scripted: rate-limited by the provider; new agents wait"),
    ],
)
def test_a_parked_runtime_is_described_in_one_line(event: RuntimeParked, words: str) -> None:
    assert describe_parked(event) == words


def test_a_network_problem_is_not_blamed_on_the_agents() -> None:
    assert "does not answer as it should, the agents are not at fault" in describe_parked(parked(kind="network"))


def of_other_runtime(session: Session) -> list[RuntimeParked]:
    return [RuntimeParked(runtime="codex", kind="outage", reason="503", until=session.last_at + HOUR)]


def test_roles_of_other_runtimes_continue() -> None:
    world = begun(Outcomes(task(1)))
    world.send(of_other_runtime, at=0.0)
    world.run()
    assert world.session.outcome == "completed"
    assert world.makespan < HOUR


def account(*names: str) -> dict[str, Ending]:
    return dict.fromkeys(names, Ending.ACCOUNT)


@pytest.mark.parametrize("name", ["plan.planner.1", "task-001.worker.1", "task-001.validator.1"])
def test_an_error_of_the_account_blames_no_work_and_waits_for_a_person(name: str) -> None:
    limits = Limits(max_retries=0, validator_retries=0)
    world = story(Outcomes(task(1), endings=account(name), answers={"rate_limit": None}), limits=limits)
    session, gate = world.session, world.session.open_gates["rate_limit-scripted"]
    assert not session.ended
    assert ([option.name for option in gate.options], gate.default) == (["retry", "stop"], "stop")
    assert "the provider refuses the login" in gate.title
    assert session.plan_failures == ()
    assert all(record.retries == 0 and record.validator_failures == 0 for record in session.tasks.values())
    assert len(events(world, RuntimeParked)) == 1
    assert not [effect for effect in effects_due(session) if isinstance(effect, AwaitRuntime)]


def test_after_the_account_is_in_order_the_answer_goes_on_where_it_stopped() -> None:
    world = story(
        Outcomes(task(1), endings=account("plan.planner.1", "task-001.worker.1"), answers={"rate_limit": "retry"}),
        limits=Limits(max_retries=0),
    )
    assert world.session.outcome == "completed"
    assert [(event.until is None, event.kind) for event in events(world, RuntimeParked)] == [
        *([(True, "login"), (False, "login")] * 2)
    ]
    assert [gate for gate in world.session.gates if gate.startswith("rate")] == [
        "rate_limit-scripted",
        "rate_limit-scripted-2",
    ]


def test_a_resume_tries_the_account_again_without_an_answer() -> None:
    world = story(Outcomes(task(1), endings=account("task-001.worker.1"), answers={"rate_limit": None}))
    assert "rate_limit-scripted" in world.session.open_gates
    world.send(lambda _session: [OrchestratorStarted(pid=2)], at=world.now + 1)
    world.run()
    assert world.session.outcome == "completed"
    assert [event.reason for event in events(world, GateWithdrawn)] == ["the session was resumed"]


def test_agents_that_meet_the_same_error_of_the_account_are_one_notice() -> None:
    ends = account("task-001.worker.1", "task-002.worker.1", "task-003.worker.1")
    world = story(Outcomes(task(1), task(2), task(3), endings=ends, answers={"rate_limit": None}))
    assert len(events(world, RuntimeParked)) == 1
    assert list(world.session.open_gates) == ["rate_limit-scripted"]
    assert world.session.exit_code is ExitCode.WORLD


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("login", "log in with 'x'; a variable that you set now needs `blueflame resume`"),
        ("credit", "add credit at the provider, or another account for the runtime claude"),
        ("model", "change roles.worker.model, now sonnet-9, to one that your account has"),
        ("unsupported", "update the program of the runtime claude, or correct the address of its provider"),
    ],
)
def test_the_fix_of_an_account_is_named(kind: str, fix: str) -> None:
    found = describe_account_fix(
        kind, role="worker", model="sonnet-9", runtime="claude", how_to_log_in="log in with 'x'"
    )
    assert found == fix


def test_the_gate_of_an_outage_says_what_the_provider_answered() -> None:
    reason = "localhost: its certificate cannot be trusted: self-signed certificate"
    opened = open_rate_limit_gate(story(Outcomes(task(1))).session, replace(parked(kind="network"), reason=reason))
    assert opened.gate.title.endswith(reason)
    assert "network is down" not in opened.gate.title
