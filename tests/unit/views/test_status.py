from __future__ import annotations

import pytest

from blueflame.model.activity import Health, HealthReport
from blueflame.model.event import SessionEnded
from blueflame.orchestrator.engine.presence import OrchestratorPresence, RunningCommand
from blueflame.views.status import build_commands_json, build_orchestrator_json, describe_orchestrator
from support.recorded_session import Story

NOW = 1_770_000_000.0
WORKING = HealthReport(state=Health.WORKING, warden_pid=7)
LOST = HealthReport(state=Health.LOST)


def holder(silent: float, pid: int | None = 4711) -> OrchestratorPresence:
    return OrchestratorPresence(pid=pid, since=NOW - 3600 if pid else None, last_sign=NOW - silent, heartbeat=30.0)


def line(holder: OrchestratorPresence | None, **checkups: HealthReport) -> str:
    return describe_orchestrator(holder, Story().working().session, checkups, now=NOW)


def test_who_is_at_work_is_named_with_its_last_heartbeat() -> None:
    assert line(holder(12)) == (
        "Blue Flame is running this session (pid 4711, for 1 h 00 min; last heartbeat 12 s ago)."
    )


@pytest.mark.parametrize("pid", [4711, None])
def test_one_that_has_given_no_sign_for_long_is_not_said_to_be_at_work(pid: int | None) -> None:
    said = line(holder(300, pid))
    assert "has not reported for 5 min" in said
    assert "is running" not in said


def test_agents_without_an_orchestrator_are_reported_only_while_they_are_seen() -> None:
    assert "The orchestrator is not running, its agents are" in line(None, a=LOST, b=WORKING)
    assert line(None, a=LOST) == "Not running. Continue with 'blueflame resume'."


def test_of_a_session_that_is_over_nothing_is_said() -> None:
    story = Story().working()
    story.tell(SessionEnded(outcome="stopped"))
    assert describe_orchestrator(None, story.session, {}, now=NOW) == ""


def test_machines_get_the_same() -> None:
    assert build_orchestrator_json(None, now=NOW) == {"orchestrator_pid": None, "orchestrator": None}
    result = build_orchestrator_json(holder(300), now=NOW)
    assert result["orchestrator_pid"] == 4711
    assert result["orchestrator"] == {"pid": 4711, "since": NOW - 3600, "last_sign": NOW - 300, "late": True}
    each = RunningCommand(name="check.task-001-01.1", pid=12, warden_pid=11, since=NOW - 90, last_output=NOW - 4)
    assert build_commands_json([each])["commands"][0]["warden_pid"] == 11
