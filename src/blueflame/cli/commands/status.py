"""`blueflame status`: how a session stands, from any terminal."""

from __future__ import annotations

from pathlib import Path

from blueflame.cli.options import CONFIG, JSON, SESSION
from blueflame.cli.output import print_json, print_text


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
    from blueflame.orchestrator import project as app
    from blueflame.system.clock import SystemClock

    ground = app.open_project(config)
    with app.open_journal(ground) as journal:
        found = app.load_session(journal, app.find_session(journal, session))
    holder, now = app.find_orchestrator(ground, found), SystemClock().now()
    checkups, commands = app.probe_agents(ground, found), app.list_running_commands(ground, found)
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
