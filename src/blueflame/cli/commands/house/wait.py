"""`blueflame wait`: wait until a session or a request of the house needs a person, or has ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.commands.house.serve import house_option
from blueflame.cli.options import DURATION, config_option, json_option, refuse_idle
from blueflame.cli.output import print_json, print_text
from blueflame.model.exit_codes import ExitCode
from blueflame.orchestrator.project import open_project

if TYPE_CHECKING:
    pass

POLL_SECONDS = 0.2
WHAT_HELP = "A request of the house or a session [default: your open request here, else the newest session]."


@click.command()
@click.argument("what", required=False, help=WHAT_HELP)
@click.option("--for", "until", type=click.Choice(["end", "gate"]), default="end", show_default=True, help="For what.")
@click.option(
    "--timeout",
    type=DURATION,
    default="0s",
    show_default=True,
    help="At most so long, such as 10m; 0s: without limit.",
)
@config_option
@house_option
@json_option
def wait(
    *, what: str | None, until: str, timeout: float, config: Path | None, house: Path | None, as_json: bool
) -> int:
    """Wait for the end of a session, or for a gate. The exit code is that of the session."""
    from blueflame.house.client import open_house
    from blueflame.house.wait import find_own_request, watch_request, watch_session

    if what is not None:
        refuse_idle(*(("with a request", "config") if what.startswith("req-") else ("with a session", "house")))
    what = what or find_own_request(open_project(config), house)
    if what and what.startswith("req-"):
        look = watch_request(open_house(house), what)
    else:
        look = watch_session(open_project(config), what)
    ends, noted, timed_out = time.monotonic() + timeout, "", False
    while True:
        found = look()
        if found.code is not None or (until == "gate" and found.gates):
            break
        if found.note != noted:
            noted = found.note
            if noted:
                print_text(f"blueflame: {noted}", err=True)
        if timeout and time.monotonic() > ends:
            timed_out = True
            break
        time.sleep(POLL_SECONDS)  # another process writes the journal: polling is the only way
    if as_json:
        print_json({"state": found.state, "session": found.session or None, "gates": list(found.gates)})
    if timed_out:
        print_text(f"still {found.state}: --timeout is over", err=True)
        return ExitCode.TIMED_OUT
    if not as_json:
        gates = f": {', '.join(found.gates)}" if found.gates and found.code is None else ""
        print_text(f"{found.session or what}: {'gate' if gates else found.state}{gates}")
    return ExitCode.OK if found.code is None else found.code
