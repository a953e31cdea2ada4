"""`blueflame sessions` and `blueflame team`: list the sessions of this repository, and who works in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import RenderableType
from rich.text import Text

from blueflame.cli.console import build_columns, make_console, print_view
from blueflame.cli.options import config_option, json_option
from blueflame.cli.output import print_result, print_text
from blueflame.cli.render.team import render_team
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_running_pid, load_session, open_journal
from blueflame.system.clock import SystemClock
from blueflame.text.format import format_count, format_dollars
from blueflame.text.sanitize import shorten_line
from blueflame.views.sessions import SessionRow, build_session_row, build_sessions_json
from blueflame.views.team import build_team, build_team_json


@click.command()
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Show only the newest N sessions; 0 = all.",
)
@config_option
@json_option
def sessions(last: int, config: Path | None, as_json: bool) -> int:
    """List the sessions of this repository, newest first: state, tasks that landed, cost and request."""
    project = open_project(config)
    with open_journal(project) as journal:
        known = journal.list_ids()
        newest, left = known[:last] if last else known, journal.find_unfinished()
        at_work = left.id if left is not None and find_running_pid(project) is not None else ""
        rows = [build_session_row(load_session(journal, each), running=each == at_work) for each in newest]
    if as_json:
        return print_result(build_sessions_json(rows))
    print_view(make_console(), _render_rows(rows))
    if len(rows) < len(known):
        print_text(f"  … and {format_count(len(known) - len(rows), 'older session')}: --last 0 lists all")
    return 0


@click.command()
@config_option
@json_option
def team(config: Path | None, as_json: bool) -> int:
    """List the seats of the team: domain, tasks, how many landed and passed the first time, and the last work."""
    from blueflame.orchestrator.triage import list_known_records

    project = open_project(config)
    with open_journal(project) as journal:
        newest = next(iter(journal.list_ids()), None)
        rows = build_team(list_known_records(project), load_session(journal, newest) if newest else None)
    return print_result(build_team_json(rows) if as_json else render_team(rows, now=SystemClock().now()))


def _render_rows(rows: Sequence[SessionRow]) -> RenderableType:
    head = ("session", "state", "landed", "cost", "request")
    cells = [
        (
            Text(row.session, "id"),
            Text(row.state, "good" if row.outcome == "completed" and row.work.is_whole else "warn"),
            f"{row.work.landed} of {row.work.tasks}",
            format_dollars(row.cost_micro_usd, places=2),
            shorten_line(row.request, 60),
        )
        for row in rows
    ]
    return build_columns(cells, head=head, right=(2, 3), whole=range(4))
