"""`blueflame stop`, `proceed` and `kill`: control the running session from another terminal."""

from __future__ import annotations

import getpass
from pathlib import Path

import typer

from blueflame.cli.options import CONFIG, JSON

NOTHING_TO = {"stop": "stop", "proceed": "continue", "kill": "kill"}


def stop(
    now: bool = typer.Option(False, "--now", help="Kill the agents instead of asking them to end."),
    keep_agents: bool = typer.Option(False, "--keep-agents", help="Leave the agents running; resume adopts them."),
    config: Path | None = CONFIG,
    as_json: bool = JSON,
) -> int:
    """Stop the running session; 'blueflame resume' continues it."""
    return _send_command("stop", {"now": now, "keep_agents": keep_agents}, config, as_json=as_json)


def proceed(
    kill: bool = typer.Option(False, "--kill", help="End the agents that still run and re-queue their tasks."),
    config: Path | None = CONFIG,
    as_json: bool = JSON,
) -> int:
    """Continue with what is done: the wave does not wait for the rest."""
    return _send_command("proceed", {"kill": kill}, config, as_json=as_json)


def kill(
    agent: str = typer.Argument(..., help="Agent or task: see 'blueflame status'."),
    reason: str = typer.Option("", "--reason", "-m", help="Reason, passed on to the next attempt."),
    config: Path | None = CONFIG,
    as_json: bool = JSON,
) -> int:
    """End one agent; its task is re-queued for the next cycle."""
    return _send_command("kill", {"agent": agent, "reason": reason}, config, as_json=as_json)


def _send_command(kind: str, body: dict[str, object], config: Path | None, *, as_json: bool) -> int:
    from blueflame.cli.send import send_message
    from blueflame.model.errors import Refused
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_running_pid, find_session, find_unfinished, open_journal

    project = open_project(config)
    with open_journal(project) as journal:
        session = find_session(journal, None)
        left = find_unfinished(journal)
    if find_running_pid(project) is None:
        advice = f"; 'blueflame resume' continues {left.id}" if left else ""
        raise Refused(f"no session is running in {project.repo.root}: nothing to {NOTHING_TO[kind]}{advice}")
    return send_message(project, session, kind, body | {"by": getpass.getuser()}, as_json=as_json)
