"""Agents, wardens and checks that are killed from outside while the orchestrator lives: no task is blamed."""

from __future__ import annotations

import os
import re
import signal

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import AttemptEnded, Checked, EnvironmentFailed
from blueflame.model.exit_codes import ExitCode
from blueflame.model.gate import Gate
from blueflame.orchestrator.engine import local
from blueflame.session.environment import ASK_AFTER, MAX_LOSSES
from blueflame.session.state import Session
from support.sessions import Stage, plan_of, start_orchestrator, task, writes
from support.wardens import wait_until

pytestmark = pytest.mark.usefixtures("quick_retries")

KILLS_ITS_WARDEN = "kill -TERM $(ps -o ppid= -p $PPID)"


@pytest.fixture(autouse=True)
def _no_retries(stage: Stage) -> None:
    stage.reconfigure(limits={"max_retries": 0, "kill_grace": "1s"})


def test_a_warden_that_gets_term_from_outside_loses_its_attempt(stage: Stage) -> None:
    worker = {"1": [{"run": f"{KILLS_ITS_WARDEN}; sleep 600"}], "*": writes("src/1.txt", "one")}
    stage.play(task(1), workers={1: worker})
    result = stage.run()
    assert result.states == {"task-001": "merged"}
    endings = [event.ended.ending for event in result.of(AttemptEnded) if ".worker." in event.attempt]
    assert endings == [Ending.LOST, Ending.PASSED]
    assert result.session.cycle == 1, "it waits for no other cycle"


def test_a_warden_that_is_stopped_is_reported_and_asked_about(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_UNKNOWN_SECONDS", 0.1)
    monkeypatch.setattr(local, "HINDERED_POLL_SECONDS", 0.05)

    def continue_it(gate: Gate, _session: Session) -> str:
        (problem,) = gate.evidence["problems"]
        found = re.search(r"its warden is stopped .*'kill -CONT (\d+)'", problem)
        assert found, problem
        os.kill(int(found[1]), signal.SIGCONT)
        return "retry"

    stops = [{"run": "kill -STOP $(ps -o ppid= -p $PPID)"}, *writes("src/1.txt", "one")]
    stage.play(task(1), workers={1: stops})
    result = stage.run({"environment": [continue_it]})
    assert result.states == {"task-001": "merged"}
    assert [event.ended.ending for event in result.of(AttemptEnded)] == [Ending.PASSED]


@pytest.mark.parametrize("content", ["", '{"attempt": "ses'])
def test_a_damaged_outcome_loses_the_attempt_at_once(stage: Stage, content: str) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "one")})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.kill()
    attempts = stage.root / ".blueflame/attempts"
    wait_until(lambda: list(attempts.glob("*.worker.1/outcome.json")), "it has ended")
    (outcome,) = attempts.glob("*.worker.1/outcome.json")
    outcome.write_text(content)
    result = stage.resume()
    assert result.states == {"task-001": "merged"}
    lost, passed = (event.ended for event in result.of(AttemptEnded) if ".worker." in event.attempt)
    assert (lost.ending, passed.ending) == (Ending.LOST, Ending.PASSED)
    assert lost.notes.startswith("its outcome.json was damaged")
    assert not result.of(EnvironmentFailed)


def test_an_agent_that_is_killed_each_time_ends_in_a_gate(stage: Stage) -> None:
    stage.play(task(1), workers={1: [{"run": f"kill -{signal.SIGKILL.value} $PPID; sleep 600"}]})
    result = stage.run({"environment": ["stop"]})
    assert result.session.exit_code is ExitCode.WORLD
    assert result.gates[-1] == "environment"
    assert result.states == {"task-001": "claimed"}, "its next attempt is held"
    assert {event.ended.ending for event in result.of(AttemptEnded)} == {Ending.LOST}
    assert len(result.of(AttemptEnded)) == MAX_LOSSES + ASK_AFTER
    assert "which Blue Flame did not send" in result.of(EnvironmentFailed)[-1].reason


def test_a_check_that_was_killed_once_blames_no_task(stage: Stage) -> None:
    once = stage.root.parent / "once"
    check = f"test -e '{once}' || {{ touch '{once}'; kill -9 $$; }}"
    stage.reconfigure(validation={"validator_diagnostics": {"enabled": True, "commands": [check]}})
    stage.play(task(1))
    result = stage.run()
    assert once.exists()
    assert result.states == {"task-001": "merged"}
    assert all(check.passed for event in result.of(Checked) for check in event.checks)
    assert result.session.tasks["task-001"].retries == 0
