"""Money: reserved before it is spent, and a person is asked when it runs out."""

from __future__ import annotations

import json

import pytest

from blueflame.model.event import (
    AttemptIntended,
    AttemptNearsBudget,
    AttemptStarted,
    BudgetRaised,
    BudgetWarned,
    JournalEntry,
)
from blueflame.model.spend import Budget, Ceiling, Unit
from blueflame.session.budget import compute_reservation
from blueflame.session.state import Session
from support.sessions import Stage, Watcher, task, writes

COSTS = {"usage": {"cost_usd": 0.6, "input_tokens": 1000}}


def spending(stage: Stage, *, limit: float = 1.0) -> None:
    limits = {"max_session_cost_usd": limit, "warn_threshold": 0.5, "kill_grace": "1s"}
    stage.reconfigure(limits=limits, concurrency={"development": 1, "adaptive": False})
    stage.play(*(task(n) for n in (1, 2, 3)), worker=[COSTS, {"note": None}, {"commit": "feat({task}): spend"}])


@pytest.mark.verification(27)
def test_the_breaker_asks_before_more_is_spent_and_goes_on_when_raised(stage: Stage) -> None:
    spending(stage)
    result = stage.run({"budget": ["raise: 5"]})
    assert result.gates[1] == "budget"
    assert "$1.20 / $1.00" in result.answers.asked[1].title
    assert len(result.of(AttemptIntended)) == 3
    assert [raised.limit for raised in result.of(BudgetRaised)] == [5_000_000]
    assert result.of(BudgetWarned)
    assert result.session.outcome == "completed"
    assert result.session.spend.usd == 1.8


@pytest.mark.verification(27)
def test_stopping_at_the_breaker_can_be_resumed_with_more_money(stage: Stage) -> None:
    spending(stage)
    result = stage.run({"budget": ["stop"]})
    assert not result.session.ended
    assert result.states == {"task-001": "done", "task-002": "done", "task-003": "pending"}
    again = stage.resume({"budget": ["raise: 1.10", "raise: 0"]})
    assert "not above what is already used" in again.answers.objections[0]
    assert again.session.outcome == "completed"
    assert again.session.limits.session_budget.unlimited


def test_an_attempt_is_granted_no_more_than_is_left(stage: Stage) -> None:
    spending(stage, limit=1.0)
    result = stage.run({"budget": ["raise: 9"]})
    granted = [compute_reservation(event.attempt).micro_usd for event in result.of(AttemptIntended)]
    assert granted == [1_000_000, 400_000, 1_500_000]


def test_without_a_budget_of_their_own_workers_share_what_the_session_has(stage: Stage) -> None:
    stage.reconfigure(limits={"max_session_tokens": 9000}, concurrency={"development": 3, "adaptive": False})
    stage.play(*(task(n) for n in (1, 2, 3)))
    result = stage.run()
    ceilings = [event.attempt.ceilings for event in result.of(AttemptIntended)]
    assert ceilings == [(Ceiling("session", Budget(Unit.TOKENS, 3000)),)] * 3


def test_a_task_that_has_used_up_its_budget_is_not_tried_again(stage: Stage) -> None:
    stage.reconfigure(limits={"max_task_cost_usd": 1.0, "max_retries": 5})
    stage.play(task(1), task(2, after=[1]), workers={1: [COSTS, {"exit": 1}]})
    result = stage.run({"session": ["stop"]})
    assert result.states == {"task-001": "failed", "task-002": "blocked"}
    assert len(result.of(AttemptIntended)) == 2
    assert "the task's budget is used up: $1.20 / $1.00" in result.session.tasks["task-001"].reason


def test_a_days_budget_is_all_sessions_and_raised_for_the_day(stage: Stage) -> None:
    stage.reconfigure(limits={"max_day_cost_usd": 1.0}, concurrency={"development": 1, "adaptive": False})
    stage.play(task(1), workers={1: [COSTS, *writes("src/1.txt", "one")]})
    assert stage.run().session.outcome == "completed"
    stage.play(*(task(n) for n in (2, 3)), worker=[COSTS, {"note": None}, {"commit": "feat({task}): spend"}])
    result = stage.run({"budget": ["raise: 1.15", "raise: 5"]})
    assert [name for name in result.gates if name.startswith("budget")] == ["budget-day", "budget-day"]
    assert "$1.20 / $1.00 by all sessions" in result.answers.asked[1].title
    assert "not above what is already used" in result.answers.objections[0]
    assert [compute_reservation(event.attempt).micro_usd for event in result.of(AttemptIntended)] == [
        400_000,
        1_500_000,
    ]
    assert result.session.outcome == "completed"


def test_an_agent_near_its_budget_is_reported_once_while_it_works(stage: Stage) -> None:
    done = stage.root.parent / "done"
    wait = {"run": f"while [ ! -e '{done}' ]; do sleep 0.02; done"}
    stage.play(task(1), workers={1: writes("src/1.txt", "one", wait)})

    def spend(session: Session, recorded: JournalEntry) -> None:
        match recorded.event:
            case AttemptStarted(attempt=name):
                usage = {"attempt": name, "status": 200, "micro_usd": 1_300_000, "input": 10, "complete": True}
                (stage.root / ".blueflame" / "attempts" / name / "usage.jsonl").write_text(json.dumps(usage) + "\n")
            case AttemptNearsBudget():
                done.touch()

    result = stage.run(observers=[Watcher(spend)])
    name = f"{result.session.id}.task-001.worker.1"
    assert result.of(AttemptNearsBudget) == [AttemptNearsBudget(attempt=name, used=1_300_000, limit=1_500_000)]
    log = (stage.root / ".blueflame" / "logs" / "activity.log").read_text()
    assert "has used $1.30 of $1.50, its budget" in log


@pytest.mark.verification(49)
def test_tokens_are_counted_where_the_limit_is_in_tokens(stage: Stage) -> None:
    stage.reconfigure(limits={"max_session_tokens": 1500}, concurrency={"development": 1, "adaptive": False})
    stage.play(*(task(n) for n in (1, 2, 3)), worker=[COSTS, {"note": None}, {"commit": "feat({task}): spend"}])
    result = stage.run({"budget": ["raise: many", "raise: 10_000"]})
    assert "as a number of tokens" in result.answers.objections[0]
    assert result.session.spend.tokens == 3000
    assert result.session.outcome == "completed"


def test_landing_needs_no_money(stage: Stage) -> None:
    stage.reconfigure(limits={"max_session_cost_usd": 0.5})
    stage.play(task(1), workers={1: [COSTS, *writes("src/1.txt", "dear")]})
    result = stage.run()
    assert result.gates == ["plan", "changeset-cs-001"]
    assert result.session.outcome == "completed"


def test_a_planner_counts_too(stage: Stage) -> None:
    stage.reconfigure(limits={"max_session_cost_usd": 0.5})
    stage.play(planner=[{"usage": {"cost_usd": 0.7}}, {"plan": {"tasks": [task(1)]}}])
    result = stage.run({"budget": ["stop"]})
    assert result.gates == ["plan", "budget"]
    assert result.states == {"task-001": "pending"}
