"""`blueflame status`: how a session stands, from any terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blueflame.cli.options import CONFIG, JSON, SESSION
from blueflame.cli.output import print_json, print_text

if TYPE_CHECKING:
    from blueflame.orchestrator.engine.health import HealthReport
    from blueflame.orchestrator.engine.presence import RunningCommand


def status(session: str | None = SESSION, config: Path | None = CONFIG, as_json: bool = JSON) -> int:
    """How a session stands: open gates, agents at work, every task."""
    from blueflame.cli.console import make_console, print_view
    from blueflame.cli.render.session import build_session_json, render_status
    from blueflame.cli.render.status import (
        build_commands_json,
        build_orchestrator_json,
        describe_orchestrator,
        render_commands,
    )
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_orchestrator, find_session, load_session, open_journal
    from blueflame.system.clock import SystemClock

    project = open_project(config)
    with open_journal(project) as journal:
        found = load_session(journal, find_session(journal, session))
    holder, now = find_orchestrator(project, found), SystemClock().now()
    checkups: Mapping[str, HealthReport] = {}
    commands: Sequence[RunningCommand] = ()
    if not found.ended:
        from blueflame.orchestrator.wiring import list_running_commands, probe_agents

        checkups, commands = probe_agents(project, found), list_running_commands(project, found)
    if as_json:
        told = build_session_json(found, now=now, checkups=checkups)
        told |= build_commands_json(commands) | build_orchestrator_json(holder, now=now)
        print_json(told)
        return 0
    print_view(make_console(), render_status(found, now=now, checkups=checkups))
    if commands:
        print_view(make_console(), render_commands(commands, now=now))
    words = describe_orchestrator(holder, found, checkups, now=now)
    if words:
        print_text(f"\n{words}")
    return 0
