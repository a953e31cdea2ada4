"""`blueflame status`: how a session stands, from any terminal."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from blueflame.cli.options import CONFIG, JSON, SESSION


def status(session: str | None = SESSION, config: Path | None = CONFIG, as_json: bool = JSON) -> int:
    """How a session stands: open gates, agents at work, every task."""
    from blueflame import app
    from blueflame.cli.paint import make_console, show
    from blueflame.cli.show_session import session_json, show_status
    from blueflame.tools.clock import SystemClock

    ground = app.grounds(config)
    pid, now = app.running_pid(ground), SystemClock().now()
    with app.reading(ground) as journal:
        found = app.look(journal, app.find_session(journal, session))
    if as_json:
        told = session_json(found, now=now) | {"orchestrator_pid": pid}
        typer.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return 0
    show(make_console(), show_status(found, now=now))
    if pid is not None:
        typer.echo(f"\nBlue Flame is at work on it (pid {pid}).")
    elif found.live:
        typer.echo("\nIts agents work on by themselves; 'blueflame resume' takes them up and goes on.")
    elif not found.ended:
        typer.echo("\nNobody is at work on it: go on with 'blueflame resume'.")
    return 0
