"""`blueflame doctor`: is everything here that a session needs?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from blueflame.cli.options import CONFIG, JSON
from blueflame.cli.saying import tell
from blueflame.model.exits import Exit

if TYPE_CHECKING:
    from blueflame.engine.examination import Finding


def doctor(config: Path | None = CONFIG, as_json: bool = JSON) -> int:
    """Look at the machine, the configuration, the repository and what earlier sessions left."""
    from blueflame.engine.examination import State

    found = list(_findings(config))
    if as_json:
        told = [{"name": each.name, "state": each.state.value, "details": each.words} for each in found]
        tell({"findings": told})
    else:
        _show(found)
    return Exit.REFUSED if any(each.state is State.BAD for each in found) else Exit.OK


def _findings(config: Path | None) -> Iterator[Finding]:
    from blueflame import app
    from blueflame.engine.examination import Finding, State, examine_editor, examine_machine, examine_project
    from blueflame.model.errors import BlueFlameError
    from blueflame.tools.clock import SystemClock

    yield from examine_machine()
    yield examine_editor((os.environ.get("VISUAL", ""), os.environ.get("EDITOR", ""), "nano", "vi"))
    try:
        ground = app.grounds(config)
        yield Finding("configuration", State.OK, str(ground.loaded.path))
        yield from (Finding("configuration", State.WARNING, warning) for warning in ground.loaded.warnings)
        yield from examine_project(
            ground.repo, ground.places, ground.settings, config=ground.loaded.path, now=SystemClock().now()
        )
    except BlueFlameError as error:
        yield Finding("project", State.BAD, str(error))


def _show(found: list[Finding]) -> None:
    from rich.text import Text

    from blueflame.cli.paint import BAD, NOTE, OK, columns, make_console, show
    from blueflame.cli.plain import clean

    marks = {"ok": (OK, "good"), "warning": (NOTE, "warn"), "bad": (BAD, "bad")}
    rows = [(Text(*marks[each.state.value]), each.name, clean(each.words)) for each in found]
    show(make_console(), columns(rows))
