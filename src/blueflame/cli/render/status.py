"""Who holds the repository, since when, and whether it still gives signs of life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import build_columns
from blueflame.orchestrator.engine.health import HealthReport
from blueflame.orchestrator.engine.presence import OrchestratorPresence, RunningCommand
from blueflame.session.state import Session
from blueflame.text.format import format_duration
from blueflame.text.sanitize import clean_text


def describe_orchestrator(
    holder: OrchestratorPresence | None, session: Session, checkups: Mapping[str, HealthReport], *, now: float
) -> str:
    """Empty when there is nothing to say: the session is over and nobody is at work."""
    if holder is None:
        return _describe_absence(session, checkups)
    who = "a process that has not said who it is" if holder.pid is None else f"pid {holder.pid}"
    since = "" if holder.since is None else f", for {format_duration(now - holder.since)}"
    silent = format_duration(now - holder.last_sign)
    if holder.is_late(now):
        return (
            f"Blue Flame holds this repository ({who}{since}), but has given no sign of life for {silent}: "
            "it may hang. Its agents go on; end it and go on with 'blueflame resume'."
        )
    return f"Blue Flame is at work on it ({who}{since}; last sign of life {silent} ago)."


def _describe_absence(session: Session, checkups: Mapping[str, HealthReport]) -> str:
    if session.ended:
        return ""
    if any(found.warden_pid for found in checkups.values()):
        return "Its agents work on by themselves; 'blueflame resume' takes them up and goes on."
    return "Nobody is at work on it: go on with 'blueflame resume'."


def build_orchestrator_json(holder: OrchestratorPresence | None, *, now: float) -> dict[str, Any]:
    if holder is None:
        return {"orchestrator_pid": None, "orchestrator": None}
    state = {"pid": holder.pid, "since": holder.since, "last_sign": holder.last_sign, "late": holder.is_late(now)}
    return {"orchestrator_pid": holder.pid, "orchestrator": state}


def render_commands(commands: Sequence[RunningCommand], *, now: float) -> RenderableType:
    """Checks and hooks: they may hang like an agent, and are ended at their time limit like one."""
    rows: list[tuple[RenderableType, ...]] = [
        tuple(Text(word, "quiet") for word in ("command", "pid", "age", "silent"))
    ]
    rows += [
        (
            clean_text(each.name),
            str(each.pid or ""),
            format_duration(now - each.since) if each.since else "",
            format_duration(now - each.last_output) if each.last_output else "",
        )
        for each in commands
    ]
    return Group(Text("\nChecks and hooks under way", "head"), build_columns(rows, right=(1, 2, 3)))


def build_commands_json(commands: Sequence[RunningCommand]) -> dict[str, Any]:
    return {"commands": [asdict(each) for each in commands]}
