"""`blueflame gates`: list what waits for an answer."""

from __future__ import annotations

from pathlib import Path

import click

from blueflame.cli.options import config_option, json_option, session_argument
from blueflame.cli.output import print_json


@click.command()
@session_argument
@config_option
@json_option
def gates(session: str | None, config: Path | None, as_json: bool) -> int:
    """List the open gates and the commands that answer them."""
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_session, load_session, open_journal
    from blueflame.views.session import build_gates_json

    project = open_project(config)
    with open_journal(project) as journal:
        found = load_session(journal, find_session(journal, session))
    waiting = list(found.open_gates.values())
    if as_json:
        print_json({"session": found.id, "gates": build_gates_json(waiting)})
    else:
        from blueflame.cli.console import make_console, print_view
        from blueflame.cli.render.status import render_gates

        print_view(make_console(), render_gates(waiting))
    return 0
