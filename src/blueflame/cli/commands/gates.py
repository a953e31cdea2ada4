"""`blueflame gates`: list what waits for an answer."""

from __future__ import annotations

from pathlib import Path

from blueflame.cli.options import CONFIG, JSON, SESSION
from blueflame.cli.output import print_json


def gates(session: str | None = SESSION, config: Path | None = CONFIG, as_json: bool = JSON) -> int:
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
