"""`blueflame serve`: serve several repositories until stopped."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from blueflame.cli.options import PATH
from blueflame.cli.output import print_text

house_option = click.option(
    "--house", type=PATH, help="Folder of the house [default: $BLUEFLAME_HOUSE, else below the state folder]."
)


@click.command()
@house_option
@click.option("--init", is_flag=True, help="Write a commented house.yaml, and serve nothing.")
@click.option("--stop-sessions", is_flag=True, help="Stop running sessions too when the house is stopped.")
def serve(*, house: Path | None, init: bool, stop_sessions: bool) -> int:
    """Serve several repositories: take requests from every source, run sessions, share the agents."""
    import asyncio
    import getpass
    import os

    from blueflame.config.house import load_house
    from blueflame.system.layout import HousePaths, find_house_folder

    paths = HousePaths(find_house_folder(os.environ, house))
    if init:
        return _write_example(paths.config)
    loaded = load_house(paths.config)

    from blueflame.house.serve import ServeOptions, hold_house, serve_house

    options = ServeOptions(
        loaded=loaded,
        paths=paths,
        environ=dict(os.environ),
        login=getpass.getuser(),
        stop_sessions=stop_sessions,
        report=lambda text: print_text(f"blueflame: {text}", err=True),
    )
    from blueflame.chat.faces import build_faces
    from blueflame.chat.gate_message import EVIDENCE_WIDTH
    from blueflame.cli.gates.view import draw_gate

    draw = partial(draw_gate, width=EVIDENCE_WIDTH)
    with hold_house(paths) as journal:
        asyncio.run(serve_house(options, journal, lambda core: build_faces(core, loaded, options.environ, draw)))
    return 0


def _write_example(path: Path) -> int:
    from blueflame.config.house import EXAMPLE
    from blueflame.model.errors import UsageError
    from blueflame.system.files import write_atomically
    from blueflame.system.layout import make_folder

    if path.exists():
        raise UsageError(f"{path} exists already: edit it, or remove it first")
    make_folder(path.parent)
    write_atomically(path, EXAMPLE)
    print_text(f"wrote {path}: add your repositories there, then start 'blueflame serve'")
    return 0
