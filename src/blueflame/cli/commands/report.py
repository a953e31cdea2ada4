"""`blueflame report`: the report of a session, in short, as JSON or as a page."""

from __future__ import annotations

from pathlib import Path

import click

from blueflame.cli.options import PATH, config_option, json_option, session_argument
from blueflame.cli.output import print_json, print_text

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
    from blueflame.orchestrator.costs import list_costs
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_session, open_journal
    from blueflame.orchestrator.wiring import probe_agents
    from blueflame.report.build import build_report
    from blueflame.report.calibration import KINDS, MAX_SESSIONS, build_calibration
    from blueflame.report.evidence import collect_evidence
    from blueflame.session.replay import replay
    from blueflame.system.clock import SystemClock

    project = open_project(config)
    with open_journal(project) as journal:
        events = journal.read_events(find_session(journal, session))
        judged = [journal.read_events_of(each.id, KINDS) for each in journal.list_sessions()[:MAX_SESSIONS]]
    found, now = replay(events), SystemClock().now()
    checkups = probe_agents(project, found) if found.live else {}
    entries = list_costs(found, project.state.attempts, checkups, now=now)
    made = build_report(events, found, entries, now=now, calibration=build_calibration(judged))
    evidence = collect_evidence(made, project.repo, project.paths, diffs=html is not None)
    if html is not None:
        from blueflame.report.page import render_page
        from blueflame.system.files import write_atomically

        write_atomically(html.absolute(), render_page(made, evidence, made_at=now))
    if as_json:
        from blueflame.report.as_json import build_report_json

        print_json(build_report_json(made, evidence, html=html))
    elif html is not None:
        print_text(f"wrote the report of {made.session} to {html}")
    else:
        from blueflame.cli.console import make_console, print_view
        from blueflame.cli.render.report import render_report

        print_view(make_console(), render_report(made, evidence))
    return 0
