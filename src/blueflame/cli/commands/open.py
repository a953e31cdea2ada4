"""`blueflame open`: a shell in the sandbox, or an editor, where an agent works."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from blueflame.cli.completers import complete_item
from blueflame.cli.options import config_option, json_option, refuse_idle, session_option
from blueflame.cli.output import print_result, print_text
from blueflame.cli.trust import ensure_trust
from blueflame.model.attempt import AttemptRecord
from blueflame.model.errors import Refused
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import read_session
from blueflame.system.terminal import find_editor, run_in_terminal
from blueflame.views.items import find_attempt


@click.command("open")
@click.argument("attempt", shell_complete=complete_item, help="Agent, attempt or task: see 'blueflame status'.")
@click.option("--editor", "-e", is_flag=True, help="Open the checkout in $VISUAL or $EDITOR, outside of the sandbox.")
@session_option
@config_option
@json_option
def open_(attempt: str, editor: bool, session: str | None, config: Path | None, as_json: bool) -> int:
    """Open a shell in an agent's checkout, in the same sandbox as the agent. With --json, only name the checkout."""
    from blueflame.cli.commands.sandbox import find_site
    from blueflame.orchestrator.foreground_sandbox import run_in_sandbox

    if as_json:
        refuse_idle("with --json", "editor")
    project = open_project(config)
    found = read_session(project, session)
    record = find_attempt(found, attempt)
    checkout = _find_checkout(record)
    if as_json:
        found_at = {"attempt": record.attempt.id, "agent": record.attempt.agent_id, "checkout": str(checkout)}
        return print_result(found_at)
    if record.ended is None:
        print_text(f"{record.attempt.agent_id} is working here: what you change becomes part of its work.", err=True)
    if editor:
        return asyncio.run(run_in_terminal([*find_editor(), str(checkout)], cwd=checkout))
    site = find_site(project.config, checkout, check=ensure_trust)
    return run_in_sandbox(site, [os.environ.get("SHELL") or "/bin/sh"])


def _find_checkout(record: AttemptRecord) -> Path:
    if record.worktree is not None and Path(record.worktree).is_dir():
        return Path(record.worktree)
    name = record.attempt.agent_id
    tip = record.ended.tip if record.ended is not None else None
    rest = f": its result is the commit {tip[:12]}, see 'blueflame diff {name}'" if tip else ""
    raise Refused(f"the checkout of {name} is gone{rest}")
