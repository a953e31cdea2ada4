"""`blueflame cost`: what agents cost, against the estimate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import click

from blueflame.cli.options import build_session_argument, config_option, json_option
from blueflame.cli.output import print_result
from blueflame.cli.render.cost import render_cost
from blueflame.orchestrator.costs import read_costs
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_session, open_journal
from blueflame.session.accounts import forecast_cost
from blueflame.system.clock import SystemClock
from blueflame.views.cost import CostView, build_cost_json


class CostGrouping(StrEnum):
    AGENT = "agent"
    ROLE = "role"
    TASK = "task"
    MODEL = "model"
    SESSION = "session"
    DAY = "day"


WHOLE_REPOSITORY = (
    CostGrouping.SESSION,
    CostGrouping.DAY,
)  # of the whole repository unless a session is named


@click.command()
@build_session_argument("the newest; all with --by session or day")
@click.option("--by", type=click.Choice(CostGrouping, case_sensitive=False), help="Show one table only.")
@config_option
@json_option
def cost(session: str | None, by: CostGrouping | None, config: Path | None, as_json: bool) -> int:
    """Show what agents cost, by agent, role, task and model, against the estimate.

    Running agents count with what they have used so far.
    """
    project, now = open_project(config), SystemClock().now()
    with open_journal(project) as journal:
        everywhere = session is None and by in WHOLE_REPOSITORY
        names = list(reversed(journal.list_ids())) if everywhere else []
        names = names or [find_session(journal, session)]
        histories = [journal.read_events(name) for name in names]
    entries = [
        entry
        for events in histories
        for entry in read_costs(project, events, now=now, models=by in (None, CostGrouping.MODEL))
    ]
    foreseen = forecast_cost(histories[0]) if len(histories) == 1 else None
    subject = names[0] if len(names) == 1 else ""
    view = CostView(entries=tuple(entries), session=subject, by=by, foreseen=foreseen)
    return print_result(build_cost_json(view) if as_json else render_cost(view))
