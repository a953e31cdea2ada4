"""`blueflame gates`: what waits for an answer."""

from __future__ import annotations

from pathlib import Path

from blueflame.cli.options import CONFIG, JSON, SESSION
from blueflame.cli.output import tell


def gates(session: str | None = SESSION, config: Path | None = CONFIG, as_json: bool = JSON) -> int:
    """List the open gates and how to answer them."""
    from blueflame.cli.console import make_console, show
    from blueflame.cli.render.session import gates_json, show_gates
    from blueflame.orchestrator import project as app

    ground = app.grounds(config)
    with app.reading(ground) as journal:
        found = app.look(journal, app.find_session(journal, session))
    waiting = list(found.open_gates.values())
    if as_json:
        tell({"session": found.id, "gates": gates_json(waiting)})
    else:
        show(make_console(), show_gates(waiting))
    return 0
