"""A session that tells its person, from beginning to end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from blueflame.journal.journal import Journal
from blueflame.model.event import OrchestratorStarted
from blueflame.model.gate import Gate
from blueflame.orchestrator.observers.death_notice import send_death_notice
from blueflame.session.state import Session
from blueflame.system.flock import format_lock_note, hold_lock
from support.sessions import Stage, task


def telling(stage: Stage, **given: object) -> Path:
    out = stage.root.parent / "notices"
    phone = {"kind": "command", "command": f"cat >> '{out}'", "delay": "0s", "throttle": "0s", **given}
    stage.reconfigure(notifications={"phone": phone}, limits={"max_retries": 0})
    return out


def said(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def test_a_person_is_notified_of_gates_and_of_the_end(stage: Stage) -> None:
    out = telling(stage, on=["gate", "ended", "failed"])
    stage.play(task(1), task(2), workers={2: "crasher"})
    result = stage.run({"plan": ["approve"], "session": ["stop"]})
    topics = [each["topic"] for each in said(out)]
    assert topics[-1] == "ended"
    assert "failed" in topics
    assert {each["session"] for each in said(out)} == {result.session.id}
    assert said(out)[-1]["tasks"] == {"landed": 1, "failed": 1, "total": 2}
    assert result.warnings == []


def test_after_a_resume_no_gate_is_notified_again(stage: Stage) -> None:
    out = telling(stage, on=["gate"])
    stage.play(task(1))

    def stop(_gate: Gate, session: Session) -> str:
        stage.post(session, "stop")
        return "wait"

    stage.run({"changeset": [stop]})
    gates = [each["gate"] for each in said(out)]
    assert gates.count("changeset-cs-001") == 1
    result = stage.resume()
    assert result.states == {"task-001": "merged"}
    assert [each["gate"] for each in said(out)].count("changeset-cs-001") == 1


def test_a_notifier_that_fails_fails_no_session(stage: Stage) -> None:
    stage.reconfigure(
        notifications={
            "phone": {"kind": "command", "command": "exit 7", "delay": "0s"},
            "chat": {"kind": "webhook", "url_from": "NO_SUCH_VARIABLE", "delay": "0s"},
        }
    )
    stage.play(task(1))
    result = stage.run()
    assert result.states == {"task-001": "merged"}
    assert len([words for words in result.warnings if "notifications.phone" in words]) == 1
    assert len([words for words in result.warnings if "notifications.chat" in words]) == 1


def test_the_death_of_an_orchestrator_is_notified_once_and_an_orderly_stop_is_not(stage: Stage) -> None:
    out = telling(stage, on=["ended"])
    stage.play(task(1))
    stopped = stage.run({"plan": ["wait"]}, until=lambda session: session.plan is not None)
    state, name = stage.project().state, stopped.session.id
    send_death_notice(state, name, os.environ)
    before = len(said(out))

    with Journal.open(state.journal) as journal:  # as one that was killed leaves it
        started = OrchestratorStarted(pid=1, host="h", version="1")
        journal.append(name, stopped.session.seq, [started], 1.0)
    with hold_lock(state.lock, format_lock_note("orchestrator")):
        send_death_notice(state, name, os.environ)
        assert len(said(out)) == before, "another one has resumed it"
    send_death_notice(state, name, os.environ)
    (notice,) = said(out)[before:]
    assert notice["words"] == "its orchestrator was killed or has failed: 0 of 0 tasks landed; it can be resumed"
    assert notice["answer"] == "blueflame resume"
