"""`blueflame watch`: show what the agents do now, from any terminal."""

from __future__ import annotations

from pathlib import Path

import click

from blueflame.cli.completers import complete_agent
from blueflame.cli.options import build_session_argument, config_option
from blueflame.cli.output import print_text
from blueflame.model.exit_codes import ExitCode
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_session, load_session, open_journal


@click.command()
@build_session_argument("the running one, else the newest")
@click.option(
    "--agent", "-a", shell_complete=complete_agent, help="Show one agent, seat or task: messages, calls and usage."
)
@click.option("--once", is_flag=True, help="Print the current state and exit.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line and change.")
def watch(session: str | None, agent: str | None, once: bool, config: Path | None, as_json: bool) -> int:
    """Show what each agent does now and its cost, until the session ends. Ctrl-C ends the view only."""
    from blueflame.cli.live.follow import FollowedSession, follow_agent, follow_session, print_snapshot

    project = open_project(config)
    with open_journal(project) as journal:
        running = journal.find_unfinished()
        name = running.id if session is None and running else find_session(journal, session)
        watched = FollowedSession(project, journal, load_session(journal, name))
        try:
            if agent is not None:
                follow_agent(watched, agent, once=once, as_json=as_json)
            elif once:
                print_snapshot(watched, as_json=as_json)
            elif not watched.describe_end():
                follow_session(watched, as_json=as_json)
        except KeyboardInterrupt:
            print_text("View closed; the session continues.", err=True)
            return ExitCode.INTERRUPTED
        if agent is None and (words := watched.describe_end()):
            print_text(words, err=as_json)
    return ExitCode.OK
