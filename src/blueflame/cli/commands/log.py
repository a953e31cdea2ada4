"""`blueflame log`: show what happened, from the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from blueflame.cli.options import config_option, refuse_idle, session_argument
from blueflame.cli.output import print_json, print_text
from blueflame.journal.codec import encode_event
from blueflame.model.errors import UsageError
from blueflame.model.event import JournalEntry, SessionEnded
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_session, load_session, open_journal
from blueflame.session.hand_offs import list_hand_offs
from blueflame.session.state import Session
from blueflame.text.event_lines import format_log_lines
from blueflame.views.hand_offs import build_hand_off_json, list_document_lines

POLL_SECONDS = 0.3


@click.command()
@session_argument
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Show only the last N events; 0 = all.",
)
@click.option("--follow", "-f", is_flag=True, help="Follow until the session ends.")
@click.option("--handoffs", is_flag=True, help="Show what agents left for the next stage instead, as Markdown.")
@click.option("--house", is_flag=True, help="Show the events of the house instead.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line and event.")
def log(
    *,
    session: str | None,
    last: int,
    follow: bool,
    handoffs: bool,
    house: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Show the events of a session, one per line, in UTC."""
    if house:
        refuse_idle("with --house", "session", "handoffs", "config")
        return _show_house(last, follow=follow, as_json=as_json)

    if handoffs and follow:
        raise UsageError("--handoffs and --follow contradict each other: hand-offs are shown once; give one of them")
    project = open_project(config)
    with open_journal(project) as journal:
        name = find_session(journal, session)
        if handoffs:
            return _print_hand_offs(load_session(journal, name), last, as_json=as_json)
        events = journal.read_events(name)
        _print_events(events[-last:] if last else events, as_json=as_json)
        seen = events[-1].seq
        while follow and not any(isinstance(each.event, SessionEnded) for each in events):
            time.sleep(POLL_SECONDS)  # another process writes the journal: polling is the only way
            events = journal.read_events(name, after=seen)
            _print_events(events, as_json=as_json)
            seen = events[-1].seq if events else seen
    return 0


def _print_hand_offs(session: Session, last: int, *, as_json: bool) -> int:
    found = list_hand_offs(session, *session.tasks)
    shown = found[-last:] if last else found
    if as_json:
        for each in shown:
            print_json(build_hand_off_json(each), indent=None)
    else:
        print_text("\n".join(list_document_lines(shown)) or f"no agent of {session.id} has left a hand-off yet")
    return 0


def _print_events(events: Sequence[JournalEntry], *, as_json: bool) -> None:
    if not as_json:
        for line in format_log_lines(events):
            print_text(line)
        return
    for each in events:
        kind, body = encode_event(each.event)
        print_json({"seq": each.seq, "at": each.at, "kind": kind, "event": json.loads(body)}, indent=None)


def _show_house(last: int, *, follow: bool, as_json: bool) -> int:
    """Show the events of the house; with `follow` until interrupted."""
    from blueflame.house.client import open_house
    from blueflame.journal.house import HouseJournal
    from blueflame.text.house_lines import format_house_line

    with HouseJournal.open_read_only(open_house(None).paths.journal) as journal:
        seen = max(0, journal.find_last() - last) if last else 0
        while True:
            entries = journal.read_after(seen)
            for each in entries:
                seen = each.n
                if as_json:
                    kind, body = encode_event(each.event)
                    row = {"n": each.n, "stream": each.stream, "at": each.at, "kind": kind, "event": json.loads(body)}
                    print_json(row, indent=None)
                else:
                    print_text(format_house_line(each))
            if not entries and not follow:
                return 0
            if not entries:
                time.sleep(POLL_SECONDS)  # another process writes the journal: polling is the only way
