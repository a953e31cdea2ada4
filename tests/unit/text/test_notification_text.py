from __future__ import annotations

from collections.abc import Sequence

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import (
    BudgetWarned,
    Event,
    GateAnswered,
    GateWithdrawn,
    JournalEntry,
    OrchestratorStopped,
    RuntimeParked,
    SessionEnded,
)
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.spend import Spend
from blueflame.session.gates.questions import open_budget_gate
from blueflame.session.replay import apply_event, replay
from blueflame.testing.simulation import Simulation
from blueflame.text.notifications import (
    Notification,
    build_message,
    build_notifications,
    clean_title,
    find_settled_gates,
)
from support.fake_secrets import MAKERS, SecretGenerator
from support.session_examples import Outcomes, begun, reported, task


def heard(journal: Sequence[JournalEntry]) -> list[Notification]:
    """By an onlooker who sees event after event."""
    session = replay(journal[:1])
    found: list[Notification] = []
    for each in journal[1:]:
        apply_event(session, each)
        found += build_notifications(session, [each])
    return found


def after(world: Simulation, *events: Event) -> list[Notification]:
    recorded = [JournalEntry(world.session.seq + n, world.now, event) for n, event in enumerate(events, start=1)]
    for each in recorded:
        apply_event(world.session, each)
    return list(build_notifications(world.session, recorded))


def test_a_gate_says_what_is_asked_and_how_to_answer() -> None:
    waiting = reported(Outcomes(task(1, group="auth"), answers={"changeset": None}))
    notice = heard(waiting.journal)[-1]
    assert (notice.topic, notice.words) == ("gate", "[auth] thing 1")
    assert build_message(notice, 3)["text"].splitlines() == [
        f"Blue Flame: {waiting.session.project} waits for you",
        "[auth] thing 1",
        "and 3 more",
        "blueflame answer changeset-cs-001 approve|reject|skip",
    ]


def test_the_end_is_described_with_what_landed_and_without_the_reason() -> None:
    spend = {"worker": Spend(micro_usd=420_000)}
    notice = heard(reported(Outcomes(task(1), task(2), spends=spend)).journal)[-1]
    assert (notice.topic, notice.words) == ("ended", "completed: 2 of 2 tasks landed, $0.84")
    assert build_message(notice)["tasks"] == {"landed": 2, "failed": 0, "total": 2}
    (ended,) = after(begun(Outcomes()), SessionEnded(outcome="max_cycles", reason="see hunter2"))
    assert (ended.words, "hunter2" in str(build_message(ended))) == ("max cycles: 0 of 0 tasks landed, $0.00", False)
    (stopped,) = after(begun(Outcomes()), OrchestratorStopped(reason="stopped by Ctrl-C"))
    assert (stopped.topic, stopped.answer) == ("ended", "blueflame resume")


def test_a_failed_task_without_retries_is_notified() -> None:
    """A failure that is retried is not notified: the observer sees the failure and its retry together."""
    endings = {f"task-001.worker.{n}": Ending.FAILED for n in (1, 2)}
    world = reported(Outcomes(task(1), endings=endings, answers={"session": "stop"}), limits=Limits(max_retries=1))
    batches = [world.journal[a:b] for a, b in zip(world.transactions, world.transactions[1:], strict=False)]
    failed = [
        notice
        for batch in batches
        if batch
        for notice in build_notifications(replay(world.journal[: batch[-1].seq]), batch)
        if notice.topic == "failed"
    ]
    assert [notice.words for notice in failed] == ["task-001 (thing 1) after 2 attempts"]


def test_budgets_and_models_are_described_without_reasons() -> None:
    (parked,) = after(
        begun(Outcomes()), RuntimeParked(runtime="claude", kind="rate_limit", reason="of ada@example.org")
    )
    assert (parked.topic, "ada" in str(build_message(parked))) == ("parked", False)
    (warned,) = after(begun(Outcomes()), BudgetWarned(used=80, limit=100))
    assert (warned.topic, warned.words) == ("budget", "80% of the session's budget is used")
    world = begun(Outcomes())
    asked, used_up = after(world, open_budget_gate(world.session))
    assert (asked.topic, used_up.topic) == ("gate", "budget")


def test_gates_that_are_settled_are_known() -> None:
    answered = GateAnswered(gate="plan", answer=Answer(choice="approve"))
    withdrawn = GateWithdrawn(gate="stall-task-001", reason="it spoke")
    assert find_settled_gates([JournalEntry(2, 0.0, answered), JournalEntry(3, 0.0, withdrawn)]) == {
        "plan",
        "stall-task-001",
    }


@pytest.mark.parametrize("secret", ["github-token", "anthropic-key", "slack-webhook"])
def test_a_title_that_looks_like_a_secret_is_withheld(secret: str) -> None:
    assert "withheld" in clean_title(f"Use {MAKERS[secret](SecretGenerator())} for now")


def test_a_title_is_one_harmless_line() -> None:
    assert clean_title("one\ntwo \x1b[31m " + "x" * 500).startswith("one two ␛[31m xxx")
    assert len(clean_title("x" * 5_000)) < 200
