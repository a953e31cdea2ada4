"""`blueflame log`: show what happened, from the journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from blueflame.cli.options import CONFIG, SESSION
from blueflame.cli.output import print_json, print_text

if TYPE_CHECKING:
    from blueflame.model.event import JournalEntry

POLL_SECONDS = 0.3


def log(
    session: str | None = SESSION,
    last: int = typer.Option(0, "-n", "--last", min=0, help="Show only the last N events; 0 = all."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Follow until the session ends."),
    config: Path | None = CONFIG,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object per line and event."),
) -> int:
    """Show the events of a session, one per line, in UTC."""
    import time

    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_session, open_journal

    project = open_project(config)
    with open_journal(project) as journal:
        name = find_session(journal, session)
        events = journal.events(name)
        _print_events(events[-last:] if last else events, as_json=as_json)
        seen = events[-1].seq
        while follow and not _has_ended(events):
            time.sleep(POLL_SECONDS)  # another process writes the journal: polling is the only way
            events = journal.events(name, after=seen)
            _print_events(events, as_json=as_json)
            seen = events[-1].seq if events else seen
    return 0


def _has_ended(events: Sequence[JournalEntry]) -> bool:
    from blueflame.model.event import SessionEnded

    return any(isinstance(each.event, SessionEnded) for each in events)


def _print_events(events: Sequence[JournalEntry], *, as_json: bool) -> None:
    from blueflame.journal.codec import encode_event
    from blueflame.text.event_lines import format_log_lines

    if not as_json:
        for line in format_log_lines(events):
            print_text(line)
        return
    for each in events:
        kind, body = encode_event(each.event)
        print_json({"seq": each.seq, "at": each.at, "kind": kind, "event": json.loads(body)}, indent=None)
