"""The process that runs a session: since when, and its last heartbeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from blueflame.model.activity import HealthReport
from blueflame.orchestrator.engine.presence import OrchestratorPresence, RunningCommand
from blueflame.session.state import Session
from blueflame.text.format import format_duration


def describe_orchestrator(
    holder: OrchestratorPresence | None, session: Session, checkups: Mapping[str, HealthReport], *, now: float
) -> str:
    """Empty when the session is over and no process runs it."""
    if holder is None:
        return _describe_absence(session, checkups)
    pid = "pid unknown" if holder.pid is None else f"pid {holder.pid}"
    since = "" if holder.since is None else f", for {format_duration(now - holder.since)}"
    silent = format_duration(now - holder.last_sign)
    if holder.is_late(now):
        return (
            f"Blue Flame holds this repository ({pid}{since}) but has not reported for {silent}: "
            "it may hang. Its agents keep running. Kill it and run 'blueflame resume'."
        )
    return f"Blue Flame is running this session ({pid}{since}; last heartbeat {silent} ago)."


def _describe_absence(session: Session, checkups: Mapping[str, HealthReport]) -> str:
    if session.ended:
        return ""
    if any(found.warden_pid for found in checkups.values()):
        return "The orchestrator is not running, its agents are. 'blueflame resume' adopts them."
    return "Not running. Continue with 'blueflame resume'."


def build_orchestrator_json(holder: OrchestratorPresence | None, *, now: float) -> dict[str, Any]:
    if holder is None:
        return {"orchestrator_pid": None, "orchestrator": None}
    state = {"pid": holder.pid, "since": holder.since, "last_sign": holder.last_sign, "late": holder.is_late(now)}
    return {"orchestrator_pid": holder.pid, "orchestrator": state}


def build_commands_json(commands: Sequence[RunningCommand]) -> dict[str, Any]:
    return {"commands": [asdict(each) for each in commands]}
