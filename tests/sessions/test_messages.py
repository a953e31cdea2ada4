"""`blueflame say`: words of a person reach a running agent, once, also across a crash."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from blueflame.journal.journal import MessageReply
from blueflame.model.event import (
    AttemptStarted,
    JournalEntry,
    MessageDelivered,
    MessageSent,
    MessageUndelivered,
    OrchestratorStarted,
)
from blueflame.orchestrator.sessions import open_journal
from blueflame.session.state import Session
from support.sessions import Stage, Watcher, plan_of, start_orchestrator, task, writes
from support.wardens import wait_until

WORDS = "use \x1b[31mSQLite"


def waiting_for(path: Path) -> dict[str, str]:
    return {"run": f"while [ ! -e '{path}' ]; do sleep 0.02; done"}


def read_counts(stage: Stage) -> dict[str, int]:
    """What the warden says about the messages to the first worker."""
    found = list(stage.root.glob(".blueflame/attempts/*task-001.worker.1/messages.counts"))
    return json.loads(found[0].read_bytes()) if found else {}


def read_log(stage: Stage) -> str:
    found = list(stage.root.glob(".blueflame/attempts/*task-001.worker.1/stdout.log"))
    return found[0].read_text() if found else ""


def at_start_of_worker(act: Callable[[Session], None]) -> Watcher:
    def see(session: Session, recorded: JournalEntry) -> None:
        event = recorded.event
        if isinstance(event, AttemptStarted) and event.attempt.endswith("task-001.worker.1"):
            act(session)

    return Watcher(see)


def reply(stage: Stage, letter: int) -> MessageReply:
    with open_journal(stage.project()) as journal:
        return journal.read_reply(letter)


def test_an_agent_gets_a_message_with_its_next_call_and_goes_on(stage: Stage) -> None:
    go, letters = stage.root.parent / "go", []

    def let_go() -> None:
        wait_until(lambda: read_counts(stage) != {}, "the warden has the message")
        go.touch()

    def say(session: Session) -> None:
        letters.append(stage.post(session, "say", agent="task-001", text=WORDS, by="Ада"))
        threading.Thread(target=let_go).start()

    stage.play(task(1), workers={1: writes("src/1.txt", "one", waiting_for(go), {"run": "true"})})
    result = stage.run(observers=[at_start_of_worker(say)])

    assert result.session.outcome == "completed"
    assert reply(stage, letters[0]).state == "taken"
    (sent,) = result.of(MessageSent)
    assert (sent.by, sent.text) == ("Ада", "use ␛[31mSQLite")
    assert [event.number for event in result.of(MessageDelivered)] == [1]
    assert result.of(MessageUndelivered) == []
    assert read_log(stage).count("message: Ада, who runs this session, says: use ␛[31mSQLite") == 1
    assert stage.read("src/1.txt") == "one\n"


def test_a_message_outlives_a_killed_orchestrator_and_is_delivered_once(stage: Stage) -> None:
    go = stage.root.parent / "go"
    stage.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "one", waiting_for(go), {"run": "true"})})
    running = start_orchestrator(stage, program=True)
    running.until("AttemptStarted", 2)
    wait_until(lambda: "while" in read_log(stage), "the agent waits in its first call")
    stage.post(stage.look()[0], "say", agent="task-001", text="first", by="Ада")
    running.until("MessageSent")
    wait_until(lambda: read_counts(stage) == {"taken": 1, "read": 0}, "the warden has it")
    running.kill()
    go.touch()
    wait_until(lambda: read_counts(stage) == {"taken": 1, "read": 1}, "the agent reads it without an orchestrator")
    result = stage.resume()

    assert result.session.outcome == "completed"
    assert [event.number for event in result.of(MessageDelivered)] == [1]
    assert len(result.of(OrchestratorStarted)) == 2
    assert read_counts(stage) == {"taken": 1, "read": 1}


def test_words_that_an_agent_never_read_are_reported_and_given_to_the_next_one(stage: Stage) -> None:
    def say(session: Session) -> None:
        stage.post(session, "say", agent="task-001", text="use SQLite", by="Ада")
        stage.post(session, "kill", agent="task-001", by="Ада")

    stage.play(task(1), workers={1: {"1": "stuck", "*": writes("src/1.txt", "one")}})
    result = stage.run({"session": ["continue"]}, observers=[at_start_of_worker(say)])

    assert result.session.outcome == "completed"
    assert [event.number for event in result.of(MessageUndelivered)] == [1]
    assert result.of(MessageDelivered) == []
    (prompt,) = stage.root.glob(".blueflame/attempts/*task-001.worker.2/prompt.txt")
    assert "- use SQLite" in prompt.read_text()
