"""Money: reserved before it is spent, and a person is asked when it runs out."""

from __future__ import annotations

from blueflame.model.event import AttemptIntended, BudgetRaised, BudgetWarned
from sessions import Stage, task, writes

COSTS = {"usage": {"cost_usd": 0.6, "input_tokens": 1000}}


def spending(stage: Stage, *, limit: float = 1.0) -> None:
    limits = {"max_session_cost_usd": limit, "warn_threshold": 0.5, "kill_grace": "1s"}
    stage.reconfigure(limits=limits, concurrency={"development": 1, "adaptive": False})
    stage.play(*(task(n) for n in (1, 2, 3)), worker=[COSTS, {"note": None}, {"commit": "feat({task}): spend"}])


def test_the_breaker_asks_before_more_is_spent_and_goes_on_when_raised(stage: Stage) -> None:
    spending(stage)
    told = stage.run({"budget": ["raise: 5"]})
    assert told.gates[1] == "budget"
    assert "$1.20 / $1.00" in told.answers.asked[1].title
    assert len(told.of(AttemptIntended)) == 3
    assert [raised.limit for raised in told.of(BudgetRaised)] == [5_000_000]
    assert told.of(BudgetWarned)
    assert told.session.outcome == "completed"
    assert told.session.spend.usd == 1.8


def test_stopping_at_the_breaker_can_be_resumed_with_more_money(stage: Stage) -> None:
    spending(stage)
    told = stage.run({"budget": ["stop"]})
    assert not told.session.ended
    assert told.states == {"task-001": "done", "task-002": "done", "task-003": "pending"}
    again = stage.resume({"budget": ["raise: 1.10", "raise: 0"]})
    assert "not above what is already used" in again.answers.objections[0]
    assert again.session.outcome == "completed"
    assert again.session.limits.session_budget.unlimited


def test_an_attempt_is_granted_no_more_than_is_left(stage: Stage) -> None:
    spending(stage, limit=1.0)
    told = stage.run({"budget": ["raise: 9"]})
    granted = [event.attempt.budget.limit for event in told.of(AttemptIntended)]
    assert granted[0] <= 1_000_000
    assert granted[1] == 400_000
    assert granted[2] > granted[1]


def test_tokens_are_counted_where_the_limit_is_in_tokens(stage: Stage) -> None:
    stage.reconfigure(limits={"max_session_tokens": 1500}, concurrency={"development": 1, "adaptive": False})
    stage.play(*(task(n) for n in (1, 2, 3)), worker=[COSTS, {"note": None}, {"commit": "feat({task}): spend"}])
    told = stage.run({"budget": ["raise: many", "raise: 10_000"]})
    assert "as a number of tokens" in told.answers.objections[0]
    assert told.session.spend.tokens == 3000
    assert told.session.outcome == "completed"


def test_landing_needs_no_money(stage: Stage) -> None:
    stage.reconfigure(limits={"max_session_cost_usd": 0.5})
    stage.play(task(1), workers={1: [COSTS, *writes("src/1.txt", "dear")]})
    told = stage.run()
    assert told.gates == ["plan", "changeset-cs-001"]
    assert told.session.outcome == "completed"


def test_a_planner_counts_too(stage: Stage) -> None:
    stage.reconfigure(limits={"max_session_cost_usd": 0.5})
    stage.play(planner=[{"usage": {"cost_usd": 0.7}}, {"plan": {"tasks": [task(1)]}}])
    told = stage.run({"budget": ["stop"]})
    assert told.gates == ["plan", "budget"]
    assert told.states == {"task-001": "pending"}
