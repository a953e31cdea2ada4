"""`blueflame status`: show the state of a session, from any terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import config_option, json_option, refuse_idle, session_argument
from blueflame.cli.output import print_result, print_text
from blueflame.model.activity import HealthReport
from blueflame.orchestrator.monitors.person_locks import show_locks
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_orchestrator, read_session
from blueflame.system.clock import SystemClock
from blueflame.views.session import PersonLocks, build_session_json, build_status_view
from blueflame.views.status import build_commands_json, build_orchestrator_json, describe_orchestrator

if TYPE_CHECKING:
    from blueflame.orchestrator.engine.presence import RunningCommand


@click.command()
@session_argument
@click.option("--house", is_flag=True, help="Show the house instead: repositories, gates and requests.")
@config_option
@json_option
def status(session: str | None, house: bool, config: Path | None, as_json: bool) -> int:
    """Show open gates, running agents and all tasks of a session."""
    if house:
        refuse_idle("with --house", "session", "config")
        return _show_house(as_json=as_json)
    project = open_project(config)
    found = read_session(project, session)
    holder, now = find_orchestrator(project, found), SystemClock().now()
    checkups: Mapping[str, HealthReport] = {}
    commands: Sequence[RunningCommand] = ()
    locked: PersonLocks = {}
    if not found.ended:
        from blueflame.orchestrator.wiring import list_running_commands, probe_agents

        checkups, commands = probe_agents(project, found), list_running_commands(project, found)
        locked = show_locks(project.paths.state)
    if as_json:
        state = build_session_json(found, now=now, checkups=checkups, locked=locked)
        return print_result(state | build_commands_json(commands) | build_orchestrator_json(holder, now=now))
    from blueflame.cli.console import make_console, print_view
    from blueflame.cli.render.status import render_commands, render_status

    console = make_console()
    view = build_status_view(found, now=now, checkups=checkups, locked=locked)
    if words := describe_orchestrator(holder, found, checkups, now=now):
        print_text(f"{words}\n")  # first: without it, the state below is only what was recorded last
    print_view(console, render_status(view, now=now))
    if commands:
        print_view(console, render_commands(commands, now=now))
    return 0


def _show_house(*, as_json: bool) -> int:
    from blueflame.cli.render.house import render_house
    from blueflame.house.client import open_house
    from blueflame.views.house import build_house_json, build_house_view

    view = build_house_view(open_house(None), SystemClock().now())
    return print_result(build_house_json(view) if as_json else render_house(view))
