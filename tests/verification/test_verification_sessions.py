"""Whole sessions: agents that always fail, one that is killed, partial work, tasks that come back."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import AttemptEnded, AttemptIntended, ChangesetsFormed, TaskMoved, WaveStarted
from blueflame.model.task import Cause
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from support.sessions import SessionRun, Stage, task, writes
from support.wardens import read_pid


@pytest.fixture(scope="module")
def all_fail(lasting_stage: Stage) -> SessionRun:
    """Two tasks whose worker fails at every attempt; one retry is allowed."""
    lasting_stage.reconfigure(limits={"max_retries": 1, "kill_grace": "1s"})
    lasting_stage.play(task(1), task(2), workers={1: "crasher", 2: [{"exit": 3}]})
    return lasting_stage.run({"session": ["stop"]}, workflow="waves")


@pytest.mark.verification(20)
def test_v20_a_worker_is_retried_up_to_the_limit_and_then_its_task_has_failed(all_fail: SessionRun) -> None:
    assert all_fail.states == {"task-001": "failed", "task-002": "failed"}
    for name in all_fail.states:
        moves = [event.cause for event in all_fail.of(TaskMoved) if event.task == name]
        assert moves == [Cause.CLAIM, Cause.FAIL, Cause.RETRY, Cause.CLAIM, Cause.FAIL]
    assert "exit code 3" in all_fail.session.tasks["task-002"].reason


@pytest.mark.verification(29)
def test_v29_when_all_work_fails_validation_and_merge_are_skipped(all_fail: SessionRun) -> None:
    assert [wave.stage for wave in all_fail.of(WaveStarted)] == ["work"]
    assert {event.attempt.role for event in all_fail.of(AttemptIntended)} == {"worker"}
    assert not all_fail.of(ChangesetsFormed)
    assert sorted(all_fail.gates) == ["escalation-task-001", "escalation-task-002", "plan", "session-cycle-1"]
    assert (all_fail.session.outcome, all_fail.warnings) == ("stopped", [])


@pytest.mark.verification(8, 32)
def test_v32_a_killed_worker_is_noticed_its_locks_are_free_and_its_task_is_tried_again(
    stage: Stage, tmp_path: Path
) -> None:
    stage.reconfigure(limits={"max_retries": 0, "kill_grace": "1s"})
    pid = tmp_path / "pid"
    hangs = [{"run": f"echo $PPID > '{pid}.draft' && mv '{pid}.draft' '{pid}'; sleep 600"}]
    tasks = (task(n, locks=["src/shared/"]) for n in (1, 2))
    first = {"1": hangs, "*": writes("src/shared/1.txt", "one")}
    stage.play(*tasks, workers={1: first, 2: writes("src/shared/2.txt", "two")})
    killer = threading.Thread(target=lambda: os.kill(read_pid(pid), signal.SIGKILL))
    killer.start()
    result = stage.run({"session": ["stop"]})
    killer.join()
    assert result.states == {"task-001": "merged", "task-002": "merged"}
    endings = [event.ended.ending for event in result.of(AttemptEnded) if ".task-001.worker." in event.attempt]
    assert endings == [Ending.LOST, Ending.PASSED]
    causes = [event.cause for event in result.of(TaskMoved) if event.task == "task-001"]
    assert causes[:3] == [Cause.CLAIM, Cause.RELEASE, Cause.CLAIM], "one exit is dealt with once"
    assert Cause.FAIL not in causes


@pytest.mark.verification(44)
@pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox")
def test_v44_partial_work_lands_as_far_as_it_was_committed_and_the_rest_is_reported(stage: Stage) -> None:
    stage.commit("src/task-001/old.txt", "old\n")
    stage.commit("src/task-002/old.txt", "old\n")
    stage.reconfigure(sandbox={"level": "standard"})  # git is not asked about an agent's folder outside of one
    half = [
        {"write": {"path": "src/{task}/new.txt", "text": "new\n"}},
        {"commit": "feat({task}): the first half"},
        {"write": {"path": "src/{task}/old.txt", "text": "half of the rest\n"}},
        {"write": {"path": "src/{task}/other.txt", "text": "not even added\n"}},
    ]
    stage.play(*(task(n, locks=[f"src/task-{n:03d}/"]) for n in (1, 2)), worker=half)
    result = stage.run()
    assert set(result.states.values()) == {"merged"}
    for event in result.of(AttemptEnded):
        assert "left uncommitted: " in event.ended.notes
        assert all(f"/{name}.txt" in event.ended.notes for name in ("old", "other"))
    assert [path for path in stage.files() if "/task-" in path] == [
        f"src/task-{n:03d}/{name}.txt" for n in (1, 2) for name in ("new", "old")
    ]
    assert stage.read("src/task-002/old.txt") == "old\n"


@pytest.mark.verification(47)
def test_v47_the_history_of_a_task_that_comes_back_again_and_again_is_bounded(stage: Stage) -> None:
    stage.reconfigure(limits={"max_history": 1, "kill_grace": "1s"})
    stage.play(task(1))
    reasons = [f"reason number {n}" for n in (1, 2)]
    result = stage.run({"changeset": [f"reject: {reason}" for reason in reasons], "session": ["continue"] * 2})
    assert [each.rejection_reason for each in result.session.tasks["task-001"].history] == reasons[-1:]
    history = result.prompt("task-001", n=3).partition("# From earlier work")[0]
    assert [reason for reason in reasons if reason in history] == reasons[-1:]
    assert result.session.outcome == "completed"
