"""`blueflame requests`: list the requests of the house, answer for them, cancel them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blueflame.cli.agent_shell import refuse_agent_shell
from blueflame.cli.commands.house.serve import house_option
from blueflame.cli.console import build_facts, make_console, print_view
from blueflame.cli.options import CommandGroup, json_option
from blueflame.cli.output import print_json, print_result, print_text
from blueflame.journal.house import ArrivalFate, HouseJournal
from blueflame.model.errors import UsageError
from blueflame.model.exit_codes import ExitCode
from blueflame.model.gate import GateKind, build_gate_id
from blueflame.model.house.arrival import IncomingAnswer, IncomingCommand
from blueflame.system.clock import SystemClock

if TYPE_CHECKING:
    from blueflame.house.client import HouseClient
    from blueflame.views.house import RequestRow

request_argument = click.argument("request", help="The id of a request: see 'blueflame requests'.")
reason_option = click.option("--reason", "-m", default="", help="Reason, which the sender sees.")


class _ListByDefault(CommandGroup):
    """Without a command it lists."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (not args[0].startswith("-") or args[0] in ("--help", "-h"))
        return super().parse_args(ctx, args if named else ["list", *args])


@click.group(cls=_ListByDefault, name="requests")
def requests_app() -> None:
    """List the requests of the house, show one, answer for it, cancel it."""


@requests_app.command("list")
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show the open ones, and others among the last N.",
)
@house_option
@json_option
def list_(*, last: int, house: Path | None, as_json: bool) -> int:
    """List the requests, newest first: state, repository, who asked, and for what."""
    from blueflame.cli.render.house import render_requests
    from blueflame.house.client import open_house
    from blueflame.views.house import build_request_json, count_kept, format_kept, list_requests

    with HouseJournal.open_read_only(open_house(house).paths.journal) as journal:
        rows = list_requests(journal, SystemClock().now(), last=last)
        kept = count_kept(journal)
    if as_json:
        return print_result({"requests": [build_request_json(row) for row in rows], "kept": kept})
    if kept:
        print_text(format_kept(kept))
        if not rows:
            return 0
    return print_result(render_requests(rows) if rows else "no request yet: 'blueflame run --detach' makes one")


@requests_app.command()
@request_argument
@house_option
@json_option
def show(*, request: str, house: Path | None, as_json: bool) -> int:
    """Show a request and what became of it."""
    from blueflame.house.client import open_house
    from blueflame.views.house import build_request_json, list_request_facts

    row, entries = _find_request(open_house(house), request)
    if as_json:
        return print_result(build_request_json(row))
    from blueflame.text.house_lines import format_house_line

    print_view(make_console(), build_facts(list_request_facts(row)))
    for entry in entries:
        print_text(f"  {format_house_line(entry, with_stream=False)}")
    return 0


@requests_app.command()
@request_argument
@house_option
@json_option
def cancel(*, request: str, house: Path | None, as_json: bool) -> int:
    """Cancel a request: one that waits is dropped, one that runs is stopped."""
    return _hand_in(
        house, as_json, lambda common: IncomingCommand(verb="cancel", subject=request, **common), request=request
    )


@requests_app.command()
@request_argument
@house_option
@json_option
def start(*, request: str, house: Path | None, as_json: bool) -> int:
    """Let a request start that waits for an owner."""
    return _answer(request, "start", "", house, as_json)


@requests_app.command()
@request_argument
@reason_option
@house_option
@json_option
def refuse(*, request: str, reason: str, house: Path | None, as_json: bool) -> int:
    """Refuse a request that waits for an owner."""
    return _answer(request, "refuse", reason, house, as_json)


def _answer(request: str, choice: str, note: str, house: Path | None, as_json: bool) -> int:
    refuse_agent_shell("an answer to the house")
    gate = build_gate_id(GateKind.REQUEST, request, 1)

    def build(common: dict[str, Any]) -> IncomingAnswer:
        return IncomingAnswer(repository="", session="", gate=gate, choice=choice, note=note, **common)

    return _hand_in(house, as_json, build, request=request)


def _hand_in(house: Path | None, as_json: bool, build: Callable[[dict[str, Any]], Any], *, request: str) -> int:
    """Hand in what `build` makes, and print what became of it."""
    from blueflame.house.client import build_common, open_house

    client = open_house(house)
    _find_request(client, request)
    return print_fate(client, client.hand_in(build(build_common(client))), as_json=as_json)


def print_fate(client: HouseClient, fate: ArrivalFate, *, as_json: bool) -> int:
    if fate.settled:
        state, words = ("accepted" if fate.accepted else "refused"), fate.reply
    else:
        pid, state = client.find_pid(), "waiting"
        taker = "'blueflame serve' runs" if pid is None else f"the house takes it (pid {pid})"
        words = f"kept until {taker} (house {client.paths.root})"
    if as_json:
        print_json({"state": state, "request": fate.stream if fate.stream.startswith("req-") else None, "reply": words})
    else:
        named = f"{fate.stream}: " if fate.stream.startswith("req-") and fate.stream not in words else ""
        print_text(f"{named}{words}", err=state == "refused")
    return ExitCode.REFUSED if state == "refused" else ExitCode.OK


def _find_request(client: HouseClient, request: str) -> tuple[RequestRow, Any]:
    from blueflame.dispatch.state import replay_house
    from blueflame.house.client import find_record
    from blueflame.views.house import build_request_row

    with HouseJournal.open_read_only(client.paths.journal) as journal:
        found = find_record(journal, request)
        if found is None:
            newest = ", ".join(journal.list_streams(3)) or "none"
            raise UsageError(f"no request is called {request!r}; the newest: {newest}")
        house = replay_house(journal.read_open_streams())
        row = build_request_row(journal, house, found, SystemClock().now())
        return row, journal.read_stream(request)
