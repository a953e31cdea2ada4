"""Who holds the repository, since when, and whether it still gives signs of life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blueflame.app import Orchestrator
from blueflame.cli.plain import duration
from blueflame.engine.health import Checkup
from blueflame.rules.session import Session


def orchestrator_line(
    holder: Orchestrator | None, session: Session, checkups: Mapping[str, Checkup], *, now: float
) -> str:
    """Empty when there is nothing to say: the session is over and nobody is at work."""
    if holder is None:
        return _nobody(session, checkups)
    who = "a process that has not said who it is" if holder.pid is None else f"pid {holder.pid}"
    since = "" if holder.since is None else f", for {duration(now - holder.since)}"
    silent = duration(now - holder.last_sign)
    if holder.is_late(now):
        return (
            f"Blue Flame holds this repository ({who}{since}), but has given no sign of life for {silent}: "
            "it may hang. Its agents go on; end it and go on with 'blueflame resume'."
        )
    return f"Blue Flame is at work on it ({who}{since}; last sign of life {silent} ago)."


def _nobody(session: Session, checkups: Mapping[str, Checkup]) -> str:
    if session.ended:
        return ""
    if any(found.warden_pid for found in checkups.values()):
        return "Its agents work on by themselves; 'blueflame resume' takes them up and goes on."
    return "Nobody is at work on it: go on with 'blueflame resume'."


def orchestrator_json(holder: Orchestrator | None, *, now: float) -> dict[str, Any]:
    if holder is None:
        return {"orchestrator_pid": None, "orchestrator": None}
    state = {"pid": holder.pid, "since": holder.since, "last_sign": holder.last_sign, "late": holder.is_late(now)}
    return {"orchestrator_pid": holder.pid, "orchestrator": state}
