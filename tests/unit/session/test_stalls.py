from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptStalled,
    AttemptStarted,
    ConfigAdopted,
    Event,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    JournalEntry,
)
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.session.consequences import consequences_of
from blueflame.session.gates.questions import answer_error
from blueflame.session.replay import apply_event, replay
from blueflame.session.retries import WARDEN_FIRST, is_stall_due
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation, request_proceed, request_stop
from support.session_examples import SINGLE, Outcomes, begun, events, moves, states, task

WORKER = "ses-20261115-120000.task-001.worker.1"


def stalled(session: Session) -> Sequence[Event]:
    return [AttemptStalled(attempt=name, seconds=130.0) for name in session.live]


def world(on_stall: str, at: float = 0.5, **answers: str | None) -> Simulation:
    """The worker of the only task says nothing from the middle of its minute on."""
    made = begun(Outcomes(task(1), answers=answers), SINGLE, Limits(on_stall=on_stall))
    made.send(stalled, at=at)
    return made


def endings(made: Simulation) -> list[Ending]:
    return [event.ended.ending for event in events(made, AttemptEnded)]


def stall_gates(made: Simulation) -> list[str]:
    return [event.gate.id for event in events(made, GateOpened) if event.gate.kind.value == "stall"]


def test_a_warning_changes_nothing() -> None:
    made = world("warn").run()
    assert (endings(made), stall_gates(made)) == ([Ending.PASSED], [])
    assert made.session.attempts[WORKER].stalled_at == 0.5


def test_killing_is_a_failure_that_is_tried_again() -> None:
    made = world("kill").run()
    assert endings(made) == [Ending.STALLED, Ending.PASSED]
    assert moves(made, "task-001")[:4] == ["claim", "fail", "retry", "claim"]
    (wish,) = events(made, AttemptCancelled)
    assert wish.stalled
    assert "130 s" in wish.reason


def test_kill_at_the_stall_gate_does_the_same() -> None:
    made = world("ask", stall="kill").run()
    assert endings(made) == [Ending.STALLED, Ending.PASSED]
    assert events(made, GateWithdrawn) == []
    assert made.session.tasks["task-001"].retries == 1


def test_wait_at_the_stall_gate_restarts_the_timeout() -> None:
    made = world("ask", stall="wait").run()
    assert (endings(made), stall_gates(made)) == ([Ending.PASSED], ["stall-task-001"])
    assert made.session.attempts[WORKER].stalled_at == 0.5


def test_an_unanswered_stall_gate_is_withdrawn_when_the_agent_ends() -> None:
    made = world("ask", stall=None).run()
    assert states(made)["task-001"].value == "merged"
    assert [event.gate for event in events(made, GateWithdrawn)] == ["stall-task-001"]
    wrong = answer_error(made.session, "stall-task-001", Answer(choice="kill"))
    assert "needs no answer any more: the agent has ended" in wrong


@pytest.mark.parametrize(
    "letter", [request_stop, lambda session: request_proceed(session, kill=True)], ids=["stop", "proceed"]
)
def test_a_question_is_withdrawn_when_the_agent_is_ended_otherwise(letter: object) -> None:
    made = world("ask", stall=None, session="stop")
    made.send(letter, at=0.7)  # type: ignore[arg-type]  # a letter
    made.run()
    assert [event.gate for event in events(made, GateWithdrawn)] == ["stall-task-001"]
    assert endings(made)[0] is Ending.CANCELLED


def test_only_one_stall_gate_is_open_for_an_agent() -> None:
    made = world("ask", stall=None)
    made.send(stalled, at=0.6)
    made.run()
    assert stall_gates(made) == ["stall-task-001"]


def test_no_stall_gate_opens_for_an_agent_that_is_being_ended() -> None:
    session = at_work("ask")
    cancel = AttemptCancelled(attempt=WORKER, reason="enough")
    apply_event(session, JournalEntry(session.seq + 1, 0.1, cancel))
    assert len(tuple(consequences_of(session, AttemptStalled(attempt=WORKER, seconds=1), 0.2))) == 1


def at_work(on_stall: str) -> Session:
    """As it stood when the worker had just been started."""
    made = begun(Outcomes(task(1)), SINGLE, Limits(on_stall=on_stall)).run()
    started = next(n for n, each in enumerate(made.journal) if isinstance(each.event, AttemptStarted))
    return replay(made.journal[: started + 1])


def due(session: Session, silent_for: float, now: float, timeout: float = 100.0) -> bool:
    return is_stall_due(session, WORKER, silent_for=silent_for, timeout=timeout, now=now)


def apply(session: Session, at: float, event: Event) -> None:
    for each in tuple(consequences_of(session, event, at)):
        apply_event(session, JournalEntry(session.seq + 1, at, each))


@pytest.mark.parametrize("policy", ["warn", "ask"])
def test_each_silence_is_reported_once(policy: str) -> None:
    session = at_work(policy)
    assert not due(session, 99.9, now=1000)
    assert due(session, 100, now=1000)
    apply(session, 1000, AttemptStalled(attempt=WORKER, seconds=100))
    assert not due(session, 101, now=1001)
    assert not due(session, 250, now=1150)
    assert due(session, 100, now=1300), "it spoke at 1200"


def test_who_waited_is_asked_again_only_after_another_while() -> None:
    session = at_work("ask")
    apply(session, 1000, AttemptStalled(attempt=WORKER, seconds=100))
    (gate,) = session.open_gates
    apply(session, 1050, GateAnswered(gate=gate, answer=Answer(choice="wait")))
    assert not due(session, 249, now=1149)
    assert due(session, 250, now=1150)


def test_where_silence_is_ended_the_warden_goes_first() -> None:
    session = at_work("kill")
    assert not due(session, 100, now=1000)
    assert due(session, 100 + WARDEN_FIRST, now=1000)


def test_a_policy_that_changes_under_way_holds_from_then_on() -> None:
    session = at_work("warn")
    changed = ConfigAdopted(digest="d", limits=replace(session.limits, on_stall="kill"))
    apply(session, 10, changed)
    apply(session, 20, AttemptStalled(attempt=WORKER, seconds=130))
    assert session.attempts[WORKER].cancelled_for_silence


def test_no_stall_is_due_while_the_session_is_stopping() -> None:
    session = at_work("ask")
    for event in request_stop(session):
        apply(session, 10, event)
    assert not due(session, 500, now=1000)
