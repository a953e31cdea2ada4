"""`blueflame report`: the report of a session, in short, as JSON or as a page."""

from __future__ import annotations

from pathlib import Path

import click

from blueflame.cli.options import PATH, config_option, json_option, session_argument
from blueflame.cli.output import print_result
from blueflame.cli.render.report import render_report
from blueflame.orchestrator.project import open_project
from blueflame.report.as_json import build_report_json
from blueflame.report.read import read_report
from blueflame.system.clock import SystemClock
from blueflame.system.files import write_atomically

html_option = click.option("--html", type=PATH, help="Write it to this file as one self-contained page.")


@click.command()
@session_argument
@html_option
@config_option
@json_option
def report(session: str | None, html: Path | None, config: Path | None, as_json: bool) -> int:
    """Show the report of a session: time, tasks, changesets, costs, decisions, failures.

    The terminal shows it in short, --html writes it in full. A session that has not ended is shown as it is now.
    """
    now = SystemClock().now()
    made, evidence = read_report(open_project(config), session, now=now, diffs=html is not None)
    if html is not None:
        from blueflame.report.page import render_page

        write_atomically(html.absolute(), render_page(made, evidence, made_at=now))
    if as_json:
        return print_result(build_report_json(made, evidence, html=html))
    wrote = f"wrote the report of {made.session} to {html}"
    return print_result(wrote if html is not None else render_report(made, evidence))
