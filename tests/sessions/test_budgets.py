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
    granted = [compute_reservation(event.attempt).micro_usd for event in result.of(AttemptIntended)]
    assert granted == [1_000_000, 400_000, 3_800_000], "no more than is left"


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
        3_800_000,
    ]
    assert result.session.outcome == "completed"


def test_an_agent_near_its_budget_is_reported_once_while_it_works(stage: Stage) -> None:
    done = stage.root.parent / "done"
    wait = {"run": f"while [ ! -e '{done}' ]; do sleep 0.02; done"}
    stage.play(task(1), workers={1: writes("src/1.txt", "one", wait)})

    def spend(session: Session, recorded: JournalEntry) -> None:
        match recorded.event:
            case AttemptStarted(attempt=name):
                usage = {"attempt": name, "status": 200, "micro_usd": 4_300_000, "input": 10, "complete": True}
                (stage.root / ".blueflame" / "attempts" / name / "usage.jsonl").write_text(json.dumps(usage) + "\n")
            case AttemptNearsBudget():
                done.touch()

    result = stage.run(observers=[Watcher(spend)])
    name = f"{result.session.id}.task-001.worker.1"
    assert result.of(AttemptNearsBudget) == [AttemptNearsBudget(attempt=name, used=4_300_000, limit=5_000_000)]
    log = (stage.root / ".blueflame" / "logs" / "activity.log").read_text()
    assert "has used $4.30 of $5.00, its budget" in log
