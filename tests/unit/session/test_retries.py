from __future__ import annotations

import pytest

from blueflame.model.attempt import BLAMELESS, PASSING, WORKER, Attempt, AttemptOutcome, Ending
from blueflame.model.event import EnvironmentFailed
from blueflame.model.gate import GateKind
from blueflame.model.limits import Limits
from blueflame.model.spend import Budget, Ceiling, Spend, Unit
from blueflame.model.task import TaskState
from blueflame.session.environment import ASK_AFTER, MAX_LOSSES
from blueflame.session.retries import is_blameless
from support.session_examples import Outcomes, events, moves, reported, states, task

BLAMED = [ending for ending in Ending if ending not in PASSING | BLAMELESS]
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
    assert not is_blameless(ATTEMPT, AttemptOutcome(ending=ending))


@pytest.mark.parametrize("ending", sorted(BLAMELESS))
def test_what_came_from_outside_is_not_to_blame(ending: Ending) -> None:
    assert is_blameless(ATTEMPT, AttemptOutcome(ending=ending))


@pytest.mark.parametrize(
    ("cause", "spent", "blameless"),
    [("session", 100, True), ("session", 49, False), ("attempt", 100, False), ("task", 100, False), ("", 100, False)],
)
def test_who_used_up_what_the_session_left_to_it_is_not_to_blame(cause: str, spent: int, blameless: bool) -> None:
    ended = AttemptOutcome(ending=Ending.BUDGET, cause=cause, spend=Spend(micro_usd=spent))
    assert is_blameless(ATTEMPT, ended) is blameless


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


@pytest.mark.parametrize("who", ["task-001.worker", "task-001.validator", "plan.planner"])
def test_attempts_that_vanish_again_and_again_wait_longer_and_blame_no_one(who: str) -> None:
    """The first losses cost no time; after many of them a person is asked, and may find out what kills wardens."""
    endings = {f"{who}.{n}": Ending.LOST for n in range(1, 12)}
    world = reported(Outcomes(task(1), endings=endings), limits=Limits(max_retries=0))
    assert world.session.outcome == "completed"
    assert states(world) == {"task-001": TaskState.MERGED}
    record = world.session.tasks["task-001"]
    assert (record.retries, record.validator_failures, world.session.plan_failures) == (0, 0, ())
    failed = events(world, EnvironmentFailed)
    assert [(each.cause, each.times) for each in failed] == [("lost", n) for n in range(1, 12 - MAX_LOSSES)]
    assert "lost 4 times in a row" in failed[0].reason
    asked = [gate.id for gate in world.session.gates.values() if gate.kind is GateKind.ENVIRONMENT]
    assert len(asked) == len(failed) + 1 - ASK_AFTER, "each start withdraws it"


def test_losses_count_only_in_a_row() -> None:
    endings = {f"task-001.worker.{n}": Ending.CRASHED if n == MAX_LOSSES + 1 else Ending.LOST for n in range(1, 8)}
    world = reported(Outcomes(task(1), endings=endings))
    assert states(world) == {"task-001": TaskState.MERGED}
    assert events(world, EnvironmentFailed) == []
    assert moves(world, "task-001").count("retry") == 1
