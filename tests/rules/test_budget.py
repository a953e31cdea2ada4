from __future__ import annotations

import pytest

from blueflame.model.attempt import PLANNER, VALIDATOR, WORKER
from blueflame.model.event import AttemptIntended, BudgetRaised, BudgetWarned, StopRequested
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.spend import NOTHING, UNLIMITED, Budget, Spend, Unit
from blueflame.model.task import TaskState
from blueflame.rules.budget import Refusal, grant, left, meter, should_warn, spent_out
from blueflame.rules.replay import replay
from blueflame.rules.session import Session
from blueflame.simulation import opened
from session_stories import FLOW, Told, begun, events, states, task, told

USD_10 = Budget(Unit.USD, 10_000_000)
TOKENS_100 = Budget(Unit.TOKENS, 100)


def session(budget: Budget, spend: Spend = NOTHING, reserved: Spend = NOTHING, **roles: Budget) -> Session:
    opening = replay([opened(limits=Limits(session_budget=budget, role_budgets=roles))])
    opening.spend, opening.reserved = spend, reserved
    return opening


def test_without_a_limit_everything_is_granted_and_nothing_trips() -> None:
    """T51: 0 is no limit."""
    rich = session(UNLIMITED, Spend(micro_usd=10**12), worker=USD_10)
    assert left(rich) is None
    assert grant(rich, WORKER) == USD_10
    assert grant(rich, VALIDATOR) == UNLIMITED
    assert not spent_out(rich)
    assert not should_warn(rich)
    assert meter(rich) == "$1000000.00 / no limit"


def test_what_is_reserved_is_no_longer_there() -> None:
    half = session(USD_10, Spend(micro_usd=3_000_000), Spend(micro_usd=5_000_000), worker=USD_10)
    assert left(half) == 2_000_000
    assert grant(half, WORKER) == Budget(Unit.USD, 2_000_000)


def test_a_role_gets_no_more_than_its_own() -> None:
    assert grant(session(USD_10, worker=Budget(Unit.USD, 4_000_000)), WORKER) == Budget(Unit.USD, 4_000_000)


def test_a_role_without_a_limit_of_its_own_is_not_cut() -> None:
    assert grant(session(USD_10), WORKER) == UNLIMITED


def test_units_are_not_mixed() -> None:
    assert grant(session(USD_10, worker=TOKENS_100), WORKER) == TOKENS_100


@pytest.mark.parametrize("over", [0, 1])
def test_nothing_is_granted_when_all_is_used(over: int) -> None:
    poor = session(USD_10, Spend(micro_usd=USD_10.limit + over))
    assert grant(poor, WORKER) == Refusal(final=True)
    assert spent_out(poor)


def test_the_warning_comes_at_the_threshold_once() -> None:
    poor = session(USD_10, Spend(micro_usd=7_999_999))
    assert not should_warn(poor)
    poor.spend = Spend(micro_usd=8_000_000)
    assert should_warn(poor)
    poor.budget_warned = True
    assert not should_warn(poor)


def test_tokens_of_every_kind_count() -> None:
    """T49: a session that reads mostly from the cache spends as well (C-10)."""
    spend = Spend(input_tokens=10, output_tokens=20, cache_read_tokens=60, cache_write_tokens=10)
    assert spent_out(session(TOKENS_100, spend))
    assert meter(session(TOKENS_100, spend)) == "100 tokens / 100 tokens"


DOLLAR_BUDGET = Budget(Unit.USD, 1_000_000)
LIMITS = Limits(workers=1, session_budget=Budget(Unit.USD, 2_000_000), role_budgets={WORKER: DOLLAR_BUDGET})
DOLLAR = {WORKER: Spend(micro_usd=1_000_000)}


def test_a_session_that_reaches_its_limit_asks_and_goes_on_when_it_is_raised() -> None:
    """T27: pause and ask."""
    raised = Answer(choice="raise", note="$9.50", by="Ада")
    world = told(Told(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": raised}), limits=LIMITS)
    assert events(world, BudgetRaised) == [BudgetRaised(limit=9_500_000, by="Ада")]
    assert [event.used for event in events(world, BudgetWarned)] == [2_000_000]
    assert world.session.outcome == "completed"


def test_nobody_works_while_the_question_is_open_but_what_is_done_is_kept() -> None:
    world = told(Told(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": None}), limits=LIMITS)
    assert list(world.session.open_gates) == ["budget"]
    assert states(world) == {
        "task-001": TaskState.DONE,
        "task-002": TaskState.DONE,
        "task-003": TaskState.PENDING,
    }


def test_a_limit_in_tokens_trips_the_breaker_too() -> None:
    """T49."""
    limits = Limits(session_budget=TOKENS_100, workers=1)
    spends = {WORKER: Spend(cache_read_tokens=70)}
    world = told(Told(task(1), task(2), task(3), spends=spends, answers={"budget": None}), limits=limits)
    assert world.session.open_gates["budget"].title == ("The session's budget is used up: 140 tokens / 100 tokens.")


def test_stop_puts_the_session_down_and_a_resume_asks_again() -> None:
    world = told(Told(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": "stop"}), limits=LIMITS)
    assert world.session.stopping == "budget gate answered stop by Ада"
    assert not world.session.ended
    again = world.resume().run()
    assert list(again.session.gates) == ["plan", "budget", "budget-2"]
    assert len(events(again, StopRequested)) == 2


def test_landing_costs_nothing_and_is_not_held_up() -> None:
    limits = Limits(session_budget=Budget(Unit.USD, 1_000_000))
    world = told(Told(task(1), spends={VALIDATOR: Spend(micro_usd=5_000_000)}), limits=limits)
    assert world.session.outcome == "completed"
    assert "budget" not in world.session.gates


def test_review_waits_for_money() -> None:
    world = told(Told(task(1), spends=DOLLAR, answers={"budget": None}), FLOW, Limits(session_budget=DOLLAR_BUDGET))
    assert list(world.session.open_gates) == ["budget"]
    assert states(world) == {"task-001": TaskState.DONE}


def test_a_planner_waits_for_money_as_well() -> None:
    fate = Told(task(1), plans={1: "no plan"}, spends={PLANNER: Spend(micro_usd=1_000_000)}, answers={"budget": None})
    world = told(fate, limits=Limits(session_budget=DOLLAR_BUDGET))
    assert list(world.session.open_gates) == ["budget"]
    assert len(events(world, AttemptIntended)) == 1


def test_while_others_run_a_refusal_is_not_final() -> None:
    """The second worker waits for what the first may give back, and nobody is asked."""
    limits = Limits(session_budget=DOLLAR_BUDGET, role_budgets={WORKER: DOLLAR_BUDGET}, workers=2)
    world = told(Told(task(1), task(2)), limits=limits)
    turns = {turn.attempt.subject: turn for turn in world.schedule if turn.attempt.role == WORKER}
    assert turns["task-002"].begins == turns["task-001"].ends
    assert "budget" not in world.session.gates


def test_reservations_are_given_back() -> None:
    limits = Limits(role_budgets={WORKER: Budget(Unit.USD, 7), VALIDATOR: Budget(Unit.TOKENS, 9)})
    world = begun(Told(task(1), task(2)), limits=limits)
    seen = set()
    while world.step():
        seen.add((world.session.reserved.micro_usd, world.session.reserved.tokens))
    assert {(7, 0), (0, 9)} <= seen
    assert world.session.reserved == NOTHING
