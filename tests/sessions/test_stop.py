"""Stopping a session: new work stops, agents are asked to end, no wait is endless, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from blueflame.model.attempt import AttemptRecord, Ending
from blueflame.model.event import AttemptCancelled, AttemptEnded, JournalEntry, OrchestratorStopped, StopRequested
from support.sessions import Stage, plan_of, start_orchestrator, task, writes
from support.wardens import is_alive, wait_until


def kinds(events: list[JournalEntry]) -> list[str]:
    return [type(each.event).__name__ for each in events]


def live(stage: Stage) -> AttemptRecord:
    session, _events = stage.look()
    (record,) = (record for record in session.attempts.values() if record.live)
    return record


def processes_of(record: AttemptRecord) -> list[int]:
    assert record.warden_pid
    warden = psutil.Process(record.warden_pid)
    return [warden.pid, *(child.pid for child in warden.children(recursive=True))]


def test_a_stubborn_agent_is_killed_after_the_grace_and_the_session_can_be_resumed(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1), task(2, after=[1])), workers={1: {"1": "stubborn"}})
    running = start_orchestrator(stage, program=True)
    running.until("AttemptStarted", 2)
    before = live(stage)
    family = processes_of(before)
    running.send(signal.SIGTERM)
    assert running.end() == 0
    session, events = stage.look()
    assert not any(map(is_alive, family))
    assert kinds(events)[-1] == "OrchestratorStopped"
    assert kinds(events).index("StopRequested") < kinds(events).index("AttemptCancelled"), "saved first"
    endings = [e.event.ended.ending for e in events if isinstance(e.event, AttemptEnded)]
    assert endings == [Ending.PASSED, Ending.CANCELLED]
    assert "task-002" not in {record.attempt.subject for record in session.attempts.values()}, "no new work"
    assert before.worktree
    assert Path(before.worktree).is_dir(), "its checkout is kept"
    assert stage.resume().session.outcome == "completed"


def test_a_closed_terminal_leaves_even_the_stubborn_at_work(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: {"1": "stubborn"}})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.send(signal.SIGHUP)
    assert running.end() == 0
    record = live(stage)
    assert all(map(is_alive, processes_of(record)))
    _session, events = stage.look()
    assert not [each for each in events if isinstance(each.event, AttemptCancelled)]
    assert record.warden_pid
    os.kill(record.warden_pid, signal.SIGTERM)
    os.kill(record.warden_pid, signal.SIGTERM)
    assert stage.resume({"session": ["continue"]}).session.outcome == "completed"


@contextmanager
def hanging(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("times", [1, 2])
def test_a_warden_that_hangs_does_not_hold_up_a_stop_for_ever(stage: Stage, times: int) -> None:
    if times == 2:
        stage.reconfigure(limits={"kill_grace": "10m"})
    stage.play(planner=plan_of(task(1)), workers={1: {"1": "stuck", "*": writes("src/1.txt", "one")}})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    record = live(stage)
    assert record.warden_pid
    with hanging(record.warden_pid):
        for _ in range(times):
            running.send(signal.SIGINT)
            running.until("StopRequested")
        assert running.end() == 0
        session, events = stage.look()
        assert list(session.live) == [record.attempt.id]
        last = events[-1].event
        assert isinstance(last, OrchestratorStopped)
        assert f"{record.attempt.agent_id} did not end in time" in last.reason
    wait_until(lambda: not is_alive(record.warden_pid or 0), "the wish to end is heard after all")
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].retries == 0


def test_checks_under_way_are_ended_with_the_agents_and_run_again(stage: Stage) -> None:
    mark = stage.root.parent / "mark"
    check = f"trap '' TERM; echo $$ >> '{mark}'; [ $(wc -l < '{mark}') -gt 1 ] || while :; do sleep 0.05; done"
    stage.reconfigure(
        validation={"validator_diagnostics": {"enabled": True, "commands": [check]}}, limits={"kill_grace": "1s"}
    )
    stage.play(planner=plan_of(task(1)))
    running = start_orchestrator(stage)
    running.until("WaveStarted", 2)
    wait_until(mark.exists, "the check runs")
    running.send(signal.SIGINT)
    running.until("StopRequested")
    running.send(signal.SIGINT)
    assert running.end() == 0
    assert not is_alive(int(mark.read_text().split()[0]))
    _session, events = stage.look()
    assert [each.event.now for each in events if isinstance(each.event, StopRequested)] == [False, True]
    assert stage.resume().session.outcome == "completed"


def test_the_exports_say_how_to_go_on_too(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: {"1": "stuck"}})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.send(signal.SIGINT)
    assert running.end() == 0
    agents = json.loads((stage.root / ".blueflame" / "agents.json").read_text())["agents"]
    assert [(row["role"], row["state"], row["status"]) for row in agents] == [
        ("planner", "ended", "completed"),
        ("worker", "ended", "killed"),
    ]
