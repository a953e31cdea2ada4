"""What people ask from other terminals while a session runs: the inbox, judged by the one who conducts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.journal.journal import MessageReply
from blueflame.model.attempt import Ending
from blueflame.model.event import (
    AttemptEnded,
    AttemptStarted,
    Event,
    GateAnswered,
    GateOpened,
    JournalEntry,
    Landed,
    OrchestratorStopped,
    ProceedRequested,
    TaskMoved,
)
from blueflame.model.gate import Answer
from blueflame.model.task import Cause
from blueflame.orchestrator.sessions import open_journal
from blueflame.session.state import Session
from support.sessions import SessionRun, Stage, Watcher, task, writes


def once(matches: Callable[[Session, Event], bool], act: Callable[[Session], None]) -> Watcher:
    """Do something at the first event that matches."""
    done: list[bool] = []

    def see(session: Session, recorded: JournalEntry) -> None:
        if not done and matches(session, recorded.event):
            done.append(True)
            act(session)

    return Watcher(see)


def started(name: str, role: str = "worker") -> Callable[[Session, Event], bool]:
    return lambda session, event: isinstance(event, AttemptStarted) and event.attempt == f"{session.id}.{name}.{role}.1"


def done(name: str) -> Callable[[Session, Event], bool]:
    return lambda _session, event: isinstance(event, TaskMoved) and (event.task, event.cause) == (name, Cause.COMPLETE)


def waiting_for(path: Path) -> dict[str, str]:
    return {"run": f"while [ ! -e '{path}' ]; do sleep 0.02; done"}


def reply(stage: Stage, letter: int) -> MessageReply:
    with open_journal(stage.project()) as journal:
        return journal.read_reply(letter)


def ending(reported: SessionRun, name: str, n: int = 1) -> Ending | None:
    ended = reported.session.attempts[f"{reported.session.id}.{name}.worker.{n}"].ended
    return ended.ending if ended else None


@pytest.fixture
def ledger(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = stage.root.parent / "ledger"
    monkeypatch.setenv("BLUEFLAME_LEDGER", str(path))
    return path


def starts(ledger: Path) -> list[str]:
    return sorted(
        line.split()[1].split(".", 1)[1] for line in ledger.read_text().splitlines() if line.startswith("start")
    )


def test_an_answer_from_elsewhere_wins_over_the_one_who_is_being_asked(stage: Stage) -> None:
    letters: list[int] = []

    def answer(session: Session) -> None:
        letters.append(stage.post(session, "answer", gate="plan", choice="sing", by="Вася"))
        letters.append(stage.post(session, "answer", gate="plan", choice="approve", by="Ада"))
        letters.append(stage.post(session, "answer", gate="plan", choice="quit", by="Вася"))

    stage.play(task(1))
    reported = stage.run({"plan": ["wait"]}, observers=[once(lambda _s, e: isinstance(e, GateOpened), answer)])
    first, second, third = (reply(stage, letter) for letter in letters)
    assert (first.state, second.state, third.state) == ("refused", "taken", "refused")
    assert "does not offer 'sing'" in first.reply
    assert third.reply == "gate plan was already answered: approve (by Ада)"
    assert reported.of(GateAnswered)[0].answer == Answer(choice="approve", by="Ада")
    assert reported.session.outcome == "completed"


def test_invalid_messages_are_refused_with_a_reason(stage: Stage) -> None:
    letters: list[int] = []

    def write(session: Session) -> None:
        letters.append(stage.post(session, "dance"))
        letters.append(stage.post(session, "kill", agent="nobody"))
        letters.append(stage.post(session, "proceed"))
        letters.append(stage.post(session, "answer", gate="plan-77", choice="approve"))
        letters.append(stage.post(session, "answer", gate="plan", choice="quit"))

    stage.play(task(1))
    stage.run({"plan": ["wait"]}, observers=[once(lambda _s, e: isinstance(e, GateOpened), write)])
    said = [reply(stage, letter) for letter in letters]
    assert [each.state for each in said] == ["refused"] * 4 + ["taken"]
    for each, word in zip(said, ("dance", "nobody", "no wave", "plan-77"), strict=False):
        assert word in each.reply


def test_a_message_that_waited_for_an_orchestrator_is_taken(stage: Stage) -> None:
    stage.play(task(1))
    reported = stage.run({"plan": ["wait"]}, until=lambda session: bool(session.open_gates))
    letter = stage.post(reported.session, "answer", gate="plan", choice="approve", by="elsewhere")
    again = stage.resume({"plan": ["wait"]})
    assert reply(stage, letter).state == "taken"
    assert again.session.outcome == "completed"


def test_going_on_with_what_is_done_leaves_the_rest_at_work(stage: Stage) -> None:
    go = stage.root.parent / "go"
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b"),
        workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two", waiting_for(go))},
    )
    proceed = once(done("task-001"), lambda session: _post(stage, session, "proceed", by="test"))
    release = once(lambda _s, e: isinstance(e, Landed), lambda _session: go.touch())
    reported = stage.run({"session": ["continue"]}, observers=[proceed, release])
    events = [recorded.event for recorded in reported.events]
    landed = next(n for n, event in enumerate(events) if isinstance(event, Landed))
    assert sum(isinstance(event, AttemptEnded) for event in events[:landed]) == 1
    assert [event.kill for event in reported.of(ProceedRequested)] == [False]
    assert reported.session.tasks["task-002"].attempts == 1, "it was left to finish"
    assert reported.session.outcome == "completed"


def test_one_agent_can_be_ended_and_its_task_is_requeued(stage: Stage) -> None:
    stage.play(task(1), task(2), workers={2: {"1": "stubborn"}})
    kill = once(
        started("task-002"), lambda session: _post(stage, session, "kill", agent="task-002", reason="off the track")
    )
    reported = stage.run({"session": ["continue"]}, observers=[kill])
    assert ending(reported, "task-002") is Ending.CANCELLED
    assert "off the track" in reported.prompt("task-002", n=2)
    assert reported.session.tasks["task-002"].retries == 0, "no task is blamed"
    assert reported.session.outcome == "completed"


def test_stopping_ends_the_agents_and_a_resume_tries_them_again(stage: Stage, ledger: Path) -> None:
    stage.play(task(1), workers={1: {"1": "stuck"}})
    stop = once(started("task-001"), lambda session: _post(stage, session, "stop", by="test"))
    reported = stage.run(observers=[stop])
    assert not reported.session.ended
    assert not reported.session.live
    assert reported.states == {"task-001": "pending"}
    assert isinstance(reported.events[-1].event, OrchestratorStopped)
    again = stage.resume()
    assert starts(ledger)[-1] == "task-001.worker.2"  # the first may have been ended before it did anything
    assert again.session.tasks["task-001"].retries == 0
    assert again.session.outcome == "completed"


def test_stopping_can_leave_the_agents_at_work_and_a_resume_adopts_them(stage: Stage, ledger: Path) -> None:
    go = stage.root.parent / "go"
    stage.play(task(1), workers={1: writes("src/1.txt", "one", waiting_for(go))})
    stop = once(started("task-001"), lambda session: _post(stage, session, "stop", keep_agents=True))
    reported = stage.run(observers=[stop])
    assert not reported.session.ended
    assert list(reported.session.live) == [f"{reported.session.id}.task-001.worker.1"]
    go.touch()
    again = stage.resume()
    assert starts(ledger) == ["task-001.worker.1"]
    assert ending(again, "task-001") is Ending.PASSED
    assert stage.read("src/1.txt") == "one\n"
    assert again.session.outcome == "completed"


def _post(stage: Stage, session: Session, kind: str, **body: object) -> None:
    stage.post(session, kind, **body)
