"""Orchestrators that die: nothing is lost, nothing is done twice, and the next one goes on."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from blueflame.model.attempt import Ending
from blueflame.model.errors import JournalError
from blueflame.model.event import (
    AttemptEnded,
    AttemptStarted,
    JournalEntry,
    OrchestratorStarted,
    OrchestratorStopped,
    PlanFailed,
    StopRequested,
)
from blueflame.orchestrator.engine import local
from blueflame.orchestrator.sessions import find_running_pid
from blueflame.session.state import Session
from support.sessions import Stage, Watcher, find_stage, plan_of, start_orchestrator, task, writes
from support.wardens import wait_until


@pytest.fixture
def ledger(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = stage.root.parent / "ledger"
    monkeypatch.setenv("BLUEFLAME_LEDGER", str(path))
    return path


def starts(ledger: Path) -> Counter[str]:
    lines = (line.split() for line in ledger.read_text().splitlines())
    return Counter(attempt for what, attempt, _pid in lines if what == "start")


def waiting_for(path: Path) -> dict[str, str]:
    return {"run": f"while [ ! -e '{path}' ]; do sleep 0.02; done"}


def test_ctrl_c_stops_in_good_order_and_a_resume_goes_on(stage: Stage, ledger: Path) -> None:
    stage.play(planner=plan_of(task(1), task(2)), workers={1: {"1": "stuck"}, 2: {"1": "stuck"}})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 3)
    running.send(signal.SIGINT)
    assert running.end() == 0
    session, events = stage.look()
    assert not session.ended
    assert not session.live
    assert [e.event.reason for e in events if isinstance(e.event, StopRequested)] == ["stopped by Ctrl-C"]
    assert isinstance(events[-1].event, OrchestratorStopped)
    endings = [e.event.ended.ending for e in events if isinstance(e.event, AttemptEnded)]
    assert endings == [Ending.PASSED, Ending.CANCELLED, Ending.CANCELLED]
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert set(starts(ledger).values()) == {1}


def test_a_second_ctrl_c_ends_agents_that_will_not_end(stage: Stage) -> None:
    stage.reconfigure(limits={"kill_grace": "10m"})
    stage.play(planner=plan_of(task(1)), workers={1: "stubborn"})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.send(signal.SIGINT)
    running.until("AttemptCancelled")
    running.send(signal.SIGINT)
    assert running.end() == 0
    session, _events = stage.look()
    assert not session.live


@pytest.mark.verification(33)
def test_agents_of_a_killed_orchestrator_are_adopted_and_not_started_again(stage: Stage, ledger: Path) -> None:
    go = stage.root.parent / "go"
    stage.play(
        planner=plan_of(task(1), task(2)),
        workers={n: writes(f"src/{n}.txt", f"number {n}", waiting_for(go)) for n in (1, 2)},
    )
    running = start_orchestrator(stage, program=True)
    running.until("AttemptStarted", 3)
    running.kill()
    session, _events = stage.look()
    wardens = [record.warden_pid for record in session.attempts.values() if record.live]
    assert len(wardens) == 2
    assert all(pid and psutil.pid_exists(pid) for pid in wardens)
    go.touch()
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert sorted(name.partition(".")[2] for name in starts(ledger)) == [
        "plan.planner.1",
        "task-001.worker.1",
        "task-002.worker.1",
    ]
    assert set(starts(ledger).values()) == {1}
    assert stage.read("src/2.txt") == "number 2\n"
    assert len(result.of(OrchestratorStarted)) == 2


@pytest.mark.verification(34)
def test_an_agent_whose_warden_was_killed_as_well_is_lost_without_blame(stage: Stage, ledger: Path) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: {"1": "stuck"}})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.kill()
    session, _events = stage.look()
    (record,) = (record for record in session.attempts.values() if record.live)
    assert record.warden_pid
    orphans = psutil.Process(record.warden_pid).children(recursive=True)
    os.kill(record.warden_pid, signal.SIGKILL)
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].retries == 0
    assert not [orphan for orphan in orphans if orphan.is_running() and orphan.status() != psutil.STATUS_ZOMBIE]
    assert set(starts(ledger).values()) == {1}


def test_a_planner_whose_warden_was_killed_is_asked_again_without_blame(stage: Stage, ledger: Path) -> None:
    stage.play(planner={"1": "stuck", "2": "stuck", "*": plan_of(task(1))})
    for n in (1, 2):
        running = start_orchestrator(stage, resume=n > 1)
        running.until("AttemptStarted")
        running.kill()
        session, _events = stage.look()
        (record,) = (record for record in session.attempts.values() if record.live)
        assert record.warden_pid
        os.kill(record.warden_pid, signal.SIGKILL)
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.of(PlanFailed) == []
    assert starts(ledger)[f"{result.session.id}.plan.planner.3"] == 1


def test_an_agent_of_unknown_status_keeps_its_slot(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, quick_retries: None
) -> None:
    """It may be running: the session stops for a person, and goes on when the cause is fixed."""
    monkeypatch.setattr(local, "MAX_UNKNOWN_SECONDS", 0.0)
    stage.play(planner=plan_of(task(1)), workers={1: {"1": "stuck"}})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.kill()
    (attempt,) = stage.look()[0].live
    outcome = stage.root / ".blueflame" / "attempts" / attempt / "outcome.json"
    outcome.mkdir()  # it cannot be read
    (asked,) = stage.resume({"environment": ["stop"]}).answers.asked
    assert "is unknown" in asked.evidence["reason"]
    assert list(stage.look()[0].live) == [attempt]
    outcome.rmdir()
    os.kill(int((outcome.parent / "lock").read_text().split()[0]), signal.SIGKILL)
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].retries == 0


@pytest.mark.verification(34)
def test_a_second_orchestrator_is_refused_with_the_pid_of_the_first(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)))
    first = start_orchestrator(stage, {"plan": ["wait"]})
    first.until("GateOpened")
    second = start_orchestrator(stage)
    assert second.end() == 3
    assert f"pid {first.process.pid}" in json.loads(second.seen[-1].split(" ", 2)[2])
    assert find_running_pid(stage.project()) == first.process.pid
    first.kill()
    assert find_running_pid(stage.project()) is None
    assert stage.resume().session.outcome == "completed"


def test_a_closed_terminal_leaves_the_agents_at_work(stage: Stage, ledger: Path) -> None:
    go = stage.root.parent / "go"
    stage.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "one", waiting_for(go))})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.send(signal.SIGHUP)
    assert running.end() == 0
    session, _events = stage.look()
    assert len(session.live) == 1
    go.touch()
    assert stage.resume().session.outcome == "completed"
    assert set(starts(ledger).values()) == {1}


@pytest.mark.verification(33)
def test_whenever_it_is_killed_the_same_tree_lands(stage: Stage, ledger: Path) -> None:
    """Killed after random events, again and again, with a dependency, a retry and a check on the way."""
    stage.reconfigure(validation={"validator_diagnostics": {"commands": ["true"]}})
    stage.play(
        planner=plan_of(task(1, cohesion_group="a"), task(2, cohesion_group="b", after=[1])),
        workers={1: {"1": "crasher", "*": writes("src/1.txt", "one")}, 2: writes("src/2.txt", "two")},
    )
    base = stage.head()
    expected = stage.run(workflow="lean")
    tree = stage.git("rev-parse", "main^{tree}")
    stage.git("reset", "-q", "--hard", base)
    ledger.unlink()
    dice, last, code = random.Random(7), 0, -signal.SIGKILL
    for _kill in range(3):
        after = last + dice.randint(4, max(5, expected.session.seq // 3))
        code = start_orchestrator(stage, resume=last > 0, die_after=after).end()
        last = stage.look()[0].seq
        if code == 0:
            break
        assert code == -signal.SIGKILL
    session = stage.look()[0]
    if not session.ended:
        session = stage.resume().session
    assert session.outcome == "completed"
    assert stage.git("rev-parse", "main^{tree}") == tree
    assert set(starts(ledger).values()) == {1}
    assert stage.git("status", "--porcelain") == ""


def test_a_journal_deleted_under_a_session_is_reported_and_rescued(stage: Stage) -> None:
    def delete(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptEnded):
            for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
                (stage.root / ".blueflame" / name).unlink(missing_ok=True)

    stage.play(task(1))
    with pytest.raises(JournalError, match="deleted or replaced while it was in use") as error:
        stage.run(observers=[Watcher(delete)])
    assert "blueflame resume" in str(error.value)
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].attempts == 1


def test_a_journal_that_another_program_damages_is_reported_and_rescued(stage: Stage) -> None:
    def damage(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptEnded):
            with (stage.root / ".blueflame" / "journal.db").open("r+b") as file:
                file.write(b"\xff" * os.fstat(file.fileno()).st_size)

    stage.play(planner=plan_of(task(1)))
    with pytest.raises(JournalError, match=r"damaged by another program .*saved there again.*`blueflame resume`"):
        stage.run(observers=[Watcher(damage)])
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert [record.attempts for record in result.session.tasks.values()] == [1]


def test_a_wal_deleted_after_a_kill_costs_nothing(stage: Stage, ledger: Path) -> None:
    """SQLite would take the journal without its newest events for complete."""
    go = stage.root.parent / "go"
    stage.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "one", waiting_for(go))})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.kill()
    (stage.root / ".blueflame" / "journal.db-wal").unlink()
    go.touch()
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.warnings == []
    assert set(starts(ledger).values()) == {1}


def test_git_clean_takes_nothing_from_a_session(stage: Stage) -> None:
    def clean(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptStarted | AttemptEnded):
            stage.git("clean", "-fdxq")

    stage.play(task(1))
    result = stage.run(observers=[Watcher(clean)])
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].attempts == 1


def test_a_removed_state_folder_is_restored_and_the_session_resumed(stage: Stage) -> None:
    def remove(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptStarted) and recorded.event.attempt.endswith("worker.1"):
            stage.git("clean", "-ffdxq")

    stage.play(task(1))
    with pytest.raises(JournalError, match="`blueflame resume`"):
        stage.run(observers=[Watcher(remove)])
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].attempts <= 2  # its checkout is gone, too: it may have failed before


def test_a_repository_that_was_moved_blames_no_agent(stage: Stage, ledger: Path) -> None:
    """Its agent had finished; the next orchestrator finds repository, state and checkout at another path."""

    class PutDown(Exception):
        pass

    def stop(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptStarted):
            raise PutDown

    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    with pytest.raises(PutDown):
        stage.run(observers=[Watcher(stop)])
    folders = stage.root / ".blueflame" / "attempts"
    wait_until(lambda: list(folders.glob("*/outcome.json")), "the agent has ended")

    elsewhere = stage.root.rename(stage.root.with_name("elsewhere"))
    moved = find_stage(elsewhere)
    stage.script.rename(moved.script)
    result = moved.resume()
    assert result.session.outcome == "completed"
    assert [each.ended.ending for each in result.of(AttemptEnded)] == [Ending.PASSED]
    assert set(starts(ledger).values()) == {1}
