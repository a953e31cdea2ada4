"""`blueflame serve`: serve several repositories until stopped."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import PATH, refuse_idle
from blueflame.cli.output import print_text
from blueflame.model.errors import UsageError

if TYPE_CHECKING:
    from blueflame.chat.faces import FaceParts
    from blueflame.config.house import LoadedHouse
    from blueflame.doctor.environment import DoctorFinding
    from blueflame.house.core import HouseCore
    from blueflame.house.serve import ServeOptions
    from blueflame.system.layout import HousePaths

UNIT_NAME = "blueflame.service"
house_option = click.option(
    "--house", type=PATH, help="Folder of the house [default: $BLUEFLAME_HOUSE, else below the state folder]."
)


@click.command()
@house_option
@click.option("--init", is_flag=True, help="Write a commented house.yaml, and serve nothing.")
@click.option("--install", is_flag=True, help="Write a systemd user unit that serves this house, and serve nothing.")
@click.option("--uninstall", is_flag=True, help="Remove that unit.")
@click.option("--stop-sessions", is_flag=True, help="Stop running sessions too when the house is stopped.")
def serve(*, house: Path | None, init: bool, install: bool, uninstall: bool, stop_sessions: bool) -> int:
    """Serve several repositories: take requests from every source, run sessions, share the agents."""
    import asyncio
    import os

    from blueflame.config.house import load_house
    from blueflame.system.layout import HousePaths, find_house_folder

    if init + install + uninstall > 1:
        raise UsageError("--init, --install and --uninstall do one thing each: pass one of them")
    paths = HousePaths(find_house_folder(os.environ, house))
    if init:
        refuse_idle("with --init", "stop_sessions")
        return _write_example(paths.config)
    if uninstall:
        refuse_idle("with --uninstall", "house", "stop_sessions")
        return _remove_unit()
    loaded = load_house(paths.config)
    if install:
        return _write_unit(paths, stop_sessions=stop_sessions)

    from blueflame.chat.faces import build_faces
    from blueflame.house.serve import hold_house, serve_house

    options = _build_options(loaded, paths, stop_sessions=stop_sessions)
    with hold_house(paths):
        asyncio.run(serve_house(options, lambda core: build_faces(_build_face_parts(core, options))))
    return 0


def _build_options(loaded: LoadedHouse, paths: HousePaths, *, stop_sessions: bool = False) -> ServeOptions:
    import getpass
    import os

    from blueflame.house.serve import ServeOptions

    return ServeOptions(
        loaded=loaded,
        paths=paths,
        environ=dict(os.environ),
        login=getpass.getuser(),
        stop_sessions=stop_sessions,
        report=lambda text: print_text(f"blueflame: {text}", err=True),
    )


def _build_face_parts(core: HouseCore, options: ServeOptions) -> FaceParts:
    from blueflame.chat.faces import FaceParts
    from blueflame.chat.gate_message import EVIDENCE_WIDTH
    from blueflame.cli.gates.view import draw_gate

    return FaceParts(core, options.loaded, options.environ, partial(draw_gate, width=EVIDENCE_WIDTH))


def examine_house(house: Path | None) -> list[DoctorFinding]:
    """For doctor: the configuration, each repository, each source, and the bot are tried."""
    import os

    from blueflame.chat.faces import FACE_BUILDERS
    from blueflame.config.house import load_house
    from blueflame.doctor.environment import DoctorFinding, FindingState
    from blueflame.doctor.house import examine_journals, examine_repositories, examine_sources
    from blueflame.house.serve import build_core, build_source_context
    from blueflame.intake.registry import SOURCE_BUILDERS
    from blueflame.journal.house import HouseJournal
    from blueflame.model.errors import BlueFlameError
    from blueflame.system.layout import HousePaths, find_house_folder

    paths = HousePaths(find_house_folder(os.environ, house))
    try:
        loaded = load_house(paths.config)
    except BlueFlameError as error:
        return [DoctorFinding("house", FindingState.BAD, str(error))]
    found = [DoctorFinding("house", FindingState.OK, str(paths.config)), *examine_repositories(loaded)]
    options = _build_options(loaded, paths)
    try:
        with HouseJournal.open(paths.journal) as journal:
            journal.refuse_damage()
            core = build_core(options, journal, lambda: None)
            found += examine_journals(core)
            context = build_source_context(core, options)
            kinds = {kind: partial(build, loaded.settings.sources, context) for kind, build in SOURCE_BUILDERS.items()}
            parts = _build_face_parts(core, options)
            faces = {kind: partial(build, parts) for kind, build in FACE_BUILDERS.items()}
            found += examine_sources({**kinds, **faces})
    except BlueFlameError as error:
        found.append(DoctorFinding("journal", FindingState.BAD, str(error)))
    return found


def _write_example(path: Path) -> int:
    from blueflame.config.house import EXAMPLE
    from blueflame.system.files import write_atomically
    from blueflame.system.layout import make_folder

    if path.exists():
        raise UsageError(f"{path} exists already: edit it, or remove it first")
    make_folder(path.parent)
    write_atomically(path, EXAMPLE)
    print_text(f"wrote {path}: add your repositories there, then start 'blueflame serve'")
    return 0


def _find_unit() -> Path:
    import os

    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    config = given if given.is_absolute() else Path.home() / ".config"
    return config / "systemd" / "user" / UNIT_NAME


def _write_unit(paths: HousePaths, *, stop_sessions: bool) -> int:
    """Write the unit; what it says is checked by systemd when it is loaded, so nothing is started here."""
    import os
    import sys

    from blueflame.system.files import write_atomically
    from blueflame.system.layout import make_folder
    from blueflame.system.service import build_unit, quote_unit

    unit, secrets = _find_unit(), paths.root / "environment"
    words = [sys.executable, "-m", "blueflame", "serve", "--house", str(paths.root)]
    text = build_unit(
        [*words, *(["--stop-sessions"] if stop_sessions else [])],
        description=f"Blue Flame serves the repositories of {paths.root}",
        path=os.environ.get("PATH", os.defpath),
        environment_file=secrets,
    )
    if unit.exists() and quote_unit(str(paths.root)) not in unit.read_text("utf-8"):
        raise UsageError(f"{unit} serves another house: remove it first with 'blueflame serve --uninstall'")
    start = "restart" if unit.exists() else "enable --now"
    make_folder(unit.parent)
    write_atomically(unit, text)
    print_text(
        f"wrote {unit}. Next:\n"
        f"  systemctl --user daemon-reload && systemctl --user {start} {UNIT_NAME}\n"
        "  loginctl enable-linger     # or it ends when you log out\n"
        f"Tokens and keys: NAME=value lines in {secrets} (chmod 600)."
    )
    return 0


def _remove_unit() -> int:
    unit = _find_unit()
    if not unit.exists():
        raise UsageError(f"there is no {unit}: nothing to remove")
    (unit.parent / "default.target.wants" / UNIT_NAME).unlink(missing_ok=True)  # made by `systemctl enable`
    unit.unlink()
    print_text(f"removed {unit}. A house that runs goes on until: systemctl --user stop {UNIT_NAME}")
    return 0
