"""`blueflame status`: how a session stands, from any terminal."""

from __future__ import annotations

from pathlib import Path

from blueflame.cli.options import CONFIG, JSON, SESSION
from blueflame.cli.output import say, tell


def status(session: str | None = SESSION, config: Path | None = CONFIG, as_json: bool = JSON) -> int:
    """How a session stands: open gates, agents at work, every task."""
    from blueflame.cli.console import make_console, show
    from blueflame.cli.render.session import session_json, show_status
    from blueflame.cli.render.status import commands_json, orchestrator_json, orchestrator_line, show_commands
    from blueflame.orchestrator import project as app
    from blueflame.system.clock import SystemClock

    ground = app.grounds(config)
    with app.reading(ground) as journal:
        found = app.look(journal, app.find_session(journal, session))
    holder, now = app.orchestrator_of(ground, found), SystemClock().now()
    checkups, commands = app.examine(ground, found), app.commands_of(ground, found)
    if as_json:
        told = session_json(found, now=now, checkups=checkups)
        told |= commands_json(commands) | orchestrator_json(holder, now=now)
        tell(told)
        return 0
    show(make_console(), show_status(found, now=now, checkups=checkups))
    if commands:
        show(make_console(), show_commands(commands, now=now))
    words = orchestrator_line(holder, found, checkups, now=now)
    if words:
        say(f"\n{words}")
    return 0
