"""`blueflame doctor`: is everything here that a session needs, and does every guard hold?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from blueflame.cli.options import CONFIG, JSON
from blueflame.cli.output import tell
from blueflame.model.exit_codes import Exit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from blueflame.doctor.environment import Finding
    from blueflame.doctor.guards import Guard, Guards
    from blueflame.orchestrator.project import Grounds


def doctor(config: Path | None = CONFIG, as_json: bool = JSON) -> int:
    """Look at the machine, the configuration, the repository and what earlier sessions left, and try every guard."""
    from blueflame.doctor.environment import Finding, State, examine_level
    from blueflame.model.errors import BlueFlameError
    from blueflame.orchestrator import project as app

    ground: Grounds | BlueFlameError
    try:
        ground = app.grounds(config)
    except BlueFlameError as error:
        ground = error
    found = list(_findings(ground))
    guards: Guards | None = None
    try:
        guards = _guards(None if isinstance(ground, BlueFlameError) else ground)
        found.append(examine_level(guards))
    except BlueFlameError as error:
        found.append(Finding("level", State.BAD, f"the guards could not be tried: {error}"))
    if as_json:
        tell(_told(found, guards))
    else:
        _show(found, guards)
    return Exit.REFUSED if any(each.state is State.BAD for each in found) else Exit.OK


def _findings(ground: object) -> Iterator[Finding]:
    from blueflame.cli.render.memory import memory_words
    from blueflame.doctor.environment import Finding, State, examine_editor, examine_machine, examine_project
    from blueflame.model.errors import BlueFlameError
    from blueflame.orchestrator.project import Grounds, casting, memory_problem_at
    from blueflame.system.clock import SystemClock

    yield from examine_machine()
    yield examine_editor((os.environ.get("VISUAL", ""), os.environ.get("EDITOR", ""), "nano", "vi"))
    if not isinstance(ground, Grounds):
        yield Finding("project", State.BAD, str(ground))
        return
    cast = casting(ground)
    try:
        yield Finding("configuration", State.OK, str(ground.loaded.path))
        yield from (Finding("configuration", State.WARNING, warning) for warning in ground.loaded.warnings)
        yield from examine_project(
            ground.repo,
            ground.places,
            ground.settings,
            config=ground.loaded.path,
            now=SystemClock().now(),
            runtimes=(runtimes := cast.at_work()),
        )
        yield from (Finding("credential", State.WARNING, reason) for reason in cast.without_credential(runtimes))
        problem = memory_problem_at(ground)
        yield Finding("memory", State.WARNING if problem else State.OK, problem or memory_words(ground.settings))
    except BlueFlameError as error:
        yield Finding("project", State.BAD, str(error))


def _guards(ground: Grounds | None) -> Guards:
    """Without a configuration, as the defaults have it."""
    from blueflame.doctor.guards import examine_guards
    from blueflame.model.settings.permissions import SandboxSettings, Validation

    if ground is None:
        return examine_guards(SandboxSettings(), Validation())
    settings = ground.settings
    return examine_guards(settings.sandbox, settings.validation, repo_root=ground.repo.root)


def _told(found: list[Finding], guards: Guards | None) -> dict[str, object]:
    table = guards.table if guards is not None else ()
    level = {"asked": guards.asked.value, "held": guards.held.value} if guards is not None else None
    return {
        "findings": [{"name": each.name, "state": each.state.value, "details": each.words} for each in found],
        "level": level,
        "guards": [
            {"name": each.name, "holds": each.holds, "state": each.state.value, "seen": each.seen} for each in table
        ],
    }


def _show(found: list[Finding], guards: Guards | None) -> None:
    from rich.text import Text

    from blueflame.cli.console import columns, make_console, show, stack
    from blueflame.text.marks import BAD, NOTE, OK
    from blueflame.text.sanitize import clean

    marks = {"ok": (OK, "good"), "warning": (NOTE, "warn"), "bad": (BAD, "bad")}
    rows = [(Text(*marks[each.state.value]), each.name, clean(each.words)) for each in found]
    show(make_console(), stack(columns(rows), _table(guards) if guards is not None else None))


def _table(guards: Guards) -> RenderableType:
    from rich.text import Text

    from blueflame.cli.console import Heading, columns, stack
    from blueflame.text.marks import BAD, NOTE, OK

    marks = {
        "enforced": (OK, "good"),
        "detected only": (NOTE, "warn"),
        "off": (NOTE, "warn"),
        "impossible here": (BAD, "bad"),
    }
    rows: list[tuple[RenderableType, ...]] = []
    told = ""
    for each in guards.table:
        mark, colour = marks[each.state.value]
        rows.append((Text(mark, colour), Text(each.state.value, colour), each.name, _said(each, told)))
        told = each.seen
    return stack(Heading("Guards", "each was tried just now"), columns(rows, whole=(0, 1)))


def _said(guard: Guard, told: str) -> RenderableType:
    """Of a guard that is not as it should be, also what was seen; not again what the line above it has told."""
    from rich.text import Text

    from blueflame.text.sanitize import clean

    if guard.state.value == "enforced" or guard.seen == told:
        return Text(guard.holds)
    return Text(f"{guard.holds}\n").append(clean(guard.seen), "quiet")
