from __future__ import annotations

import pytest

from blueflame.model.attempt import BLAMELESS, WORKER, Attempt, AttemptOutcome, Ending
from blueflame.model.limits import Limits
from blueflame.model.spend import Budget, Ceiling, Spend, Unit
from blueflame.model.task import TaskState
from blueflame.session.retries import MAX_LOSSES, is_blameless
from support.session_examples import Outcomes, moves, reported, states, task

BLAMED = [ending for ending in Ending if ending not in (Ending.PASSED, *BLAMELESS)]
ATTEMPT = Attempt(
    id="a",
    session="s",
    subject="task-001",
    role=WORKER,
    n=1,
    agent_id="worker-1",
    ceilings=(Ceiling("session", Budget(Unit.USD, 100)),),
)


@pytest.mark.parametrize("ending", BLAMED)
def test_every_failure_is_to_blame(ending: Ending) -> None:
    assert not is_blameless(ATTEMPT, AttemptOutcome(ending=ending), 0)


def test_a_cancelled_attempt_is_never_to_blame_and_a_lost_one_only_so_often() -> None:
    assert is_blameless(ATTEMPT, AttemptOutcome(ending=Ending.CANCELLED), 99)
    lost = AttemptOutcome(ending=Ending.LOST)
    assert [is_blameless(ATTEMPT, lost, n) for n in range(MAX_LOSSES + 1)] == [True] * MAX_LOSSES + [False]


def test_an_outage_is_never_to_blame() -> None:
    assert is_blameless(ATTEMPT, AttemptOutcome(ending=Ending.OUTAGE), 99)


@pytest.mark.parametrize(
    ("cause", "spent", "blameless"),
    [("session", 100, True), ("session", 49, False), ("attempt", 100, False), ("task", 100, False), ("", 100, False)],
)
def test_who_used_up_what_the_session_left_to_it_is_not_to_blame(cause: str, spent: int, blameless: bool) -> None:
    ended = AttemptOutcome(ending=Ending.BUDGET, cause=cause, spend=Spend(micro_usd=spent))
    assert is_blameless(ATTEMPT, ended, 0) is blameless


@pytest.mark.verification(20)
@pytest.mark.parametrize("ending", BLAMED)
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_worker_is_retried_so_often_and_then_its_task_has_failed(ending: Ending, retries: int) -> None:
    """T20, T43: three attempts in all, when two retries are allowed."""
    outcomes = Outcomes(
        task(1), endings={f"task-001.worker.{n}": ending for n in range(1, 9)}, answers={"session": "stop"}
    )
    world = reported(outcomes, limits=Limits(max_retries=retries))
    assert states(world) == {"task-001": TaskState.FAILED}
    assert moves(world, "task-001") == ["claim", "fail", "retry"] * retries + ["claim", "fail"]
    assert len(world.session.tasks["task-001"].history) == retries + 1


def test_an_attempt_that_succeeds_after_failures_lands() -> None:
    outcomes = Outcomes(task(1), endings={"task-001.worker.1": Ending.CRASHED, "task-001.worker.2": Ending.TIMEOUT})
    world = reported(outcomes)
    assert world.session.outcome == "completed"
    assert [entry.notes for entry in world.session.tasks["task-001"].history] == ["crashed", "timeout"]


def test_a_task_whose_attempts_always_vanish_fails_in_the_end() -> None:
    endings = {f"task-001.worker.{n}": Ending.LOST for n in range(1, 99)}
    world = reported(Outcomes(task(1), endings=endings, answers={"session": "stop"}), limits=Limits(max_retries=1))
    assert states(world) == {"task-001": TaskState.FAILED}
    assert moves(world, "task-001").count("release") == MAX_LOSSES
    assert world.session.tasks["task-001"].attempts == MAX_LOSSES + 2


def test_a_validator_that_always_vanishes_is_given_up() -> None:
    endings = {f"task-001.validator.{n}": Ending.LOST for n in range(1, 99)}
    world = reported(Outcomes(task(1), endings=endings, answers={"validator": None}))
    assert list(world.session.open_gates) == ["validator-task-001"]
    assert world.session.attempts_on["task-001", "validator"] == MAX_LOSSES + 2


def test_a_planner_that_always_vanishes_is_given_up() -> None:
    endings = {f"plan.planner.{n}": Ending.LOST for n in range(1, 99)}
    world = reported(Outcomes(task(1), endings=endings, answers={"plan": None}))
    assert world.session.open_gates["plan"].evidence["problems"] == ["lost", "lost"]
    assert [option.name for option in world.session.open_gates["plan"].options] == ["edit", "replan", "quit"]
    assert world.session.attempts_on["plan", "planner"] == MAX_LOSSES + 2
