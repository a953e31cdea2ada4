"""`blueflame stop`, `proceed`, `kill`, `say`, `retry`, `add`, `fix`: control a session from another terminal."""

from __future__ import annotations

import getpass
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.completers import complete_agent, complete_failed_task, complete_task, complete_work
from blueflame.cli.options import (
    PATH,
    RUN_PARAMETERS,
    config_option,
    foreground_options,
    json_option,
    refuse_idle,
    session_option,
)
from blueflame.cli.send import send_message
from blueflame.cli.trust import open_trusted_project
from blueflame.model.errors import Refused, UsageError
from blueflame.model.event import FixRequested
from blueflame.model.task import FixedWork, Task
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_running_pid, find_session, open_journal
from blueflame.session.gates.edits import build_edit_payload
from blueflame.system.environment import name_caller
from blueflame.text.sanitize import clean_text

if TYPE_CHECKING:
    from blueflame.cli.foreground import RunOptions

NOTHING_TO = {
    "stop": "stop",
    "proceed": "continue",
    "kill": "kill",
    "say": "talk to",
    "retry": "retry",
    "add": "add to",
}


@click.command()
@click.option("--now", is_flag=True, help="Kill the agents instead of asking them to end.")
@click.option("--keep-agents", is_flag=True, help="Leave the agents running; resume adopts them.")
@config_option
@json_option
def stop(now: bool, keep_agents: bool, config: Path | None, as_json: bool) -> int:
    """Stop the running session; 'blueflame resume' continues it."""
    if keep_agents:
        refuse_idle("with --keep-agents", "now")
    return _send_command("stop", {"now": now, "keep_agents": keep_agents}, config, as_json=as_json)


@click.command()
@click.option("--kill", is_flag=True, help="End the agents that still run and re-queue their tasks.")
@config_option
@json_option
def proceed(kill: bool, config: Path | None, as_json: bool) -> int:
    """Continue with what is done: the wave does not wait for the rest."""
    return _send_command("proceed", {"kill": kill}, config, as_json=as_json)


@click.command()
@click.argument("agent", shell_complete=complete_agent, help="Agent, seat or task: see 'blueflame status'.")
@click.option("--reason", "-m", default="", help="Reason, passed on to the next attempt.")
@config_option
@json_option
def kill(agent: str, reason: str, config: Path | None, as_json: bool) -> int:
    """End one agent; its task is re-queued for the next cycle."""
    return _send_command("kill", {"agent": agent, "reason": reason}, config, as_json=as_json)


@click.command()
@click.argument("agent", shell_complete=complete_agent, help="Agent, seat or task: see 'blueflame status'.")
@click.argument("message", help="What to tell it, at most 2,000 characters.")
@config_option
@json_option
def say(agent: str, message: str, config: Path | None, as_json: bool) -> int:
    """Send a message to a running agent, which gets it with its next tool call."""
    return _send_command("say", {"agent": agent, "text": message}, config, as_json=as_json)


@click.command()
@click.argument(
    "task", shell_complete=complete_failed_task, help="Task that failed or was sent back: see 'blueflame status'."
)
@click.option("--reason", "-m", default="", help="What to do differently, passed on to the next attempt.")
@config_option
@json_option
def retry(task: str, reason: str, config: Path | None, as_json: bool) -> int:
    """Start a failed or re-queued task again now, with all its retries."""
    return _send_command("retry", {"task": task, "reason": reason}, config, as_json=as_json)


@click.command()
@click.argument("title", required=False, help="What the task does, in a few words.")
@click.option("--description", "-d", default="", help="What to do, for the agent [default: the title].")
@click.option(
    "--lock", "-l", "locks", multiple=True, metavar="PATH", help="Path that it may write; repeatable [default: all]."
)
@click.option(
    "--after",
    "needs",
    multiple=True,
    shell_complete=complete_task,
    metavar="TASK",
    help="Task that must be done before; repeatable.",
)
@click.option("--priority", type=click.IntRange(min=1), default=3, show_default=True, help="1 is the highest.")
@click.option("--file", "-f", type=PATH, help="Add all tasks of this plan instead.")
@config_option
@json_option
def add(
    *,
    title: str | None,
    description: str,
    locks: tuple[str, ...],
    needs: tuple[str, ...],
    priority: int,
    file: Path | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Add a task to the running session."""
    from blueflame.documents.plans import read_plan

    if (title is None) == (file is None):
        raise UsageError('name one task (blueflame add "...") or a plan with --file')
    if file is not None:
        refuse_idle("with --file", "description", "locks", "needs", "priority")
    new = Task(
        id="",
        title=title or "",
        description=description,
        priority=priority,
        cohesion_group="",
        dependencies=needs,
        file_locks=locks,
    )
    tasks = read_plan(file) if file is not None else (new,)
    return _send_command("add", build_edit_payload(tasks), config, as_json=as_json)


@click.command()
@click.argument("work", shell_complete=complete_work, help="Task, changeset or landed commit: see 'blueflame status'.")
@click.argument("wrong", metavar="WHAT_IS_WRONG", help="What is wrong with it, for the agent; - reads standard input.")
@click.option(
    "--lock",
    "-l",
    "locks",
    multiple=True,
    metavar="PATH",
    help="Path that it may write; repeatable [default: as before].",
)
@click.option("--workflow", "-w", help="Workflow of a new session [default: that of the configuration].")
@click.option(
    "--allow-dirty",
    is_flag=True,
    help="Start even if the checkout has changes; a landing there waits until it has none.",
)
@session_option
@foreground_options
def fix(
    *,
    work: str,
    wrong: str,
    locks: tuple[str, ...],
    workflow: str | None,
    allow_dirty: bool,
    session: str | None,
    options: RunOptions,
) -> int:
    """Fix running or landed work: an urgent task with its history, and a lesson for later plans.

    It joins the running session; without one it starts a session for this task alone.
    """
    from blueflame.cli.commands.run import read_words
    from blueflame.orchestrator.fixes import find_fixed_work
    from blueflame.session.requests.fixes import build_fix

    text = clean_text(read_words(wrong, "what is wrong").strip())
    if not text:
        raise UsageError(f'what is wrong is not said: describe the fault, as in blueflame fix {work} "It fails on ..."')
    project = open_project(options.config)
    with open_journal(project) as journal:
        running = find_session(journal, None) if find_running_pid(project) is not None else None
        found = find_fixed_work(project.repo, journal, work, session=session, running=running)
    task = build_fix(found.session, found.work, text, locks=locks, builds_on=found.work.session == running)
    if running is None:
        base = found.session.base_branch if found.session.base_branch != project.settings.project.base_branch else None
        return _start_fix(task, found.work, workflow, options, allow_dirty=allow_dirty, base=base)
    refuse_idle(f"while {running} runs, which the fix joins", "workflow", "allow_dirty", *RUN_PARAMETERS)
    body = build_edit_payload([task]) | {"work": asdict(found.work), "by": name_caller(os.environ)}
    return send_message(project, running, "fix", body, as_json=options.as_json)


def _start_fix(
    task: Task, work: FixedWork, workflow: str | None, options: RunOptions, *, allow_dirty: bool, base: str | None
) -> int:
    """Start a session with this one task, on `base` where the work is on another branch than the configured one."""
    from blueflame.cli.commands.run import Request, refuse_unfinished, start_session
    from blueflame.session.requests.tasks import fill_task

    project = open_trusted_project(options.config, can_ask=options.can_ask_for_trust, base=base)
    with open_journal(project) as journal:
        refuse_unfinished(journal.find_unfinished())
    task = fill_task(task, "task-001", project.settings.permissions.allowed_paths)
    request = Request(f"Fix: {task.description}", (task,), None)
    fix = FixRequested(task=task.id, work=work, wrong=task.description, by=name_caller(os.environ))
    return start_session(project, request, options, workflow=workflow, allow_dirty=allow_dirty, fix=fix)


def _send_command(kind: str, body: dict[str, object], config: Path | None, *, as_json: bool) -> int:
    project = open_project(config)
    with open_journal(project) as journal:
        session = find_session(journal, None)
        left = journal.find_unfinished()
    if find_running_pid(project) is None:
        advice = f"'blueflame resume' continues {left.id}" if left else "'blueflame run' starts one"
        raise Refused(f"no session is running in {project.state.root}: nothing to {NOTHING_TO[kind]}; {advice}")
    return send_message(project, session, kind, body | {"by": getpass.getuser()}, as_json=as_json)
