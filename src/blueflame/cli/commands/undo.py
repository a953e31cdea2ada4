"""`blueflame undo`: revert one landing."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from blueflame.cli.completers import complete_landing
from blueflame.cli.options import config_option, json_option, session_option
from blueflame.cli.output import print_result, print_text
from blueflame.cli.trust import open_trusted_project
from blueflame.model.errors import Refused
from blueflame.model.event import LandingUndone
from blueflame.orchestrator.sessions import find_session, load_session, open_journal
from blueflame.orchestrator.undo import Reversal, plan_undo, undo_landing
from blueflame.system.clock import SystemClock
from blueflame.system.terminal import is_interactive
from blueflame.views.parts import pick


@click.command()
@click.argument(
    "changeset", shell_complete=complete_landing, help="Changeset that landed, such as cs-001: see 'blueflame status'."
)
@session_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@config_option
@json_option
def undo(changeset: str, session: str | None, yes: bool, config: Path | None, as_json: bool) -> int:
    """Revert one landing with a new commit on the base branch. History is kept."""
    from blueflame.cli.agent_shell import refuse_agent_shell
    from blueflame.orchestrator.lifecycle import lock_project

    refuse_agent_shell("reverting a landing")
    project = open_trusted_project(config, can_ask=not as_json)
    with open_journal(project):
        pass  # refuse before any folder is made, where no session was ever started
    with lock_project(project) as journal:
        found = load_session(journal, find_session(journal, session))
        reversal = plan_undo(project.repo, found, changeset)
        if not as_json:
            print_text(_describe_reversal(reversal))
        if not yes:
            _confirm(reversal)
        done = undo_landing(project.repo, reversal, by=getpass.getuser())
        journal.append(found.id, found.seq, [done], SystemClock().now())
    words = f"{changeset} reverted: {reversal.branch} is at {done.after[:12]}"
    return print_result(_build_json(found.id, reversal, done) if as_json else words)


def _describe_reversal(reversal: Reversal) -> str:
    lines = [f"{reversal.changeset} [{reversal.group}] {reversal.title}", f"  reverts {', '.join(reversal.tasks)}"]
    if reversal.leaning:
        lines.append(f"  ! {', '.join(reversal.leaning)} landed later and builds on it")
    return "\n".join(lines)


def _confirm(reversal: Reversal) -> None:
    if not is_interactive():
        raise Refused(f"cannot ask for confirmation without a terminal: pass --yes to revert {reversal.changeset}")
    if not click.confirm(f"Revert it with a commit on {reversal.branch}?", default=False):
        raise Refused("nothing was changed")


def _build_json(session: str, reversal: Reversal, done: LandingUndone) -> dict[str, object]:
    return {
        "session": session,
        **pick(reversal, "changeset tasks branch"),
        "before": done.before,
        "after": done.after,
        "leaning": list(reversal.leaning),
    }
