"""`blueflame run`: a request becomes landed changesets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from blueflame.cli.options import CONFIG, DECISIONS, JSON, QUIET, RECORD, REPLAY, SCRIPT
from blueflame.cli.output import print_text
from blueflame.model.errors import PlanError, Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blueflame.cli.foreground import RunOptions
    from blueflame.journal.journal import Journal, SessionInfo
    from blueflame.model.task import Task
    from blueflame.orchestrator.project import Project

TEXT = typer.Argument(None, help="What you want done, like --task.", show_default=False)
TASK = typer.Option(None, "--task", "-t", help="What you want done; - reads it from standard input.")
PLAN = typer.Option(None, "--plan", help="Use this plan (YAML or JSON) instead of a planner.")
WORKFLOW = typer.Option(None, "--workflow", "-w", help="waves, flow, single, direct, or your own.")


def run(
    text: str | None = TEXT,
    task: str | None = TASK,
    config: Path | None = CONFIG,
    plan: Path | None = PLAN,
    workflow: str | None = WORKFLOW,
    decisions: Path | None = DECISIONS,
    script: Path | None = SCRIPT,
    record: Path | None = RECORD,
    replay: Path | None = REPLAY,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Show plan, schedule, cost and agents without starting anything."
    ),
    fresh: bool = typer.Option(False, "--fresh", help="Abandon an unfinished session without asking."),
    allow_dirty: bool = typer.Option(False, "--allow-dirty", help="Start even if the checkout has changes."),
    as_json: bool = JSON,
    quiet: bool = QUIET,
) -> int:
    """Plan a request, work on it in parallel, check it, and land what you approve."""
    from blueflame.cli.foreground import begin_session, read_options, run_session
    from blueflame.cli.stale_checkouts import handle_stale_checkouts
    from blueflame.orchestrator.lifecycle import lock_project
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_unfinished, load_session

    project = open_project(config)
    request, tasks = read_request(text, task, plan)
    options = read_options(
        config, decisions=decisions, script=script, record=record, replay=replay, as_json=as_json, quiet=quiet
    )
    print_warnings(project)
    if dry_run:
        from blueflame.cli.dry_run import show_dry_run

        return show_dry_run(project, request, tasks, workflow=workflow, script=script, as_json=as_json)
    check_request(project, plan, tasks, workflow=workflow, script=script, replay=replay, allow_dirty=allow_dirty)
    with lock_project(project) as journal:
        left = find_unfinished(journal)
        if left is not None and _should_resume(project, journal, left, options, fresh=fresh):
            return run_session(project, journal, load_session(journal, left.id), options)
        handle_stale_checkouts(project, journal, options)
        session = begin_session(
            project, journal, options, request=request, tasks=tasks, workflow=workflow, allow_dirty=allow_dirty
        )
        return run_session(project, journal, session, options)


def read_request(text: str | None, task: str | None, plan: Path | None) -> tuple[str, Sequence[Task] | None]:
    """Read the request from the command line or standard input, and the plan if one is given."""
    if text is not None and task is not None:
        raise UsageError("the request is given twice: as an argument and with --task; give it once")
    task = text if task is None else task
    if task == "-":
        task = sys.stdin.read()
    if plan is not None:
        from blueflame.documents.plans import read_plan

        return task or f"the plan in {plan.name}", read_plan(plan)
    if task is None or not task.strip():
        raise UsageError('no request: pass --task "...", --task - to read it from standard input, or --plan FILE')
    return task, None


def check_request(
    project: Project,
    plan: Path | None,
    tasks: Sequence[Task] | None,
    *,
    workflow: str | None,
    script: Path | None,
    replay: Path | None = None,
    allow_dirty: bool,
) -> None:
    """Refuse a bad request before any folder, journal or session is created."""
    from blueflame.orchestrator.lifecycle import check_prerequisites, check_runtimes
    from blueflame.session.from_settings import build_workflow

    flow = build_workflow(project.settings, workflow)
    if _has_unfinished_session(project):  # an unfinished session passed these checks
        check_runtimes(project, flow, script=script, replay=replay)
    else:
        check_prerequisites(project, flow, script=script, replay=replay, allow_dirty=allow_dirty)
    if plan is not None and tasks is not None:
        _check_plan(project, plan, tasks, flow.name)


def _has_unfinished_session(project: Project) -> bool:
    from blueflame.orchestrator.sessions import find_unfinished, open_journal

    if not project.state.journal.exists():
        return False
    with open_journal(project) as journal:
        return find_unfinished(journal) is not None


def _check_plan(project: Project, plan: Path, tasks: Sequence[Task], workflow: str) -> None:
    """A planner is asked again at the gate; a person's own plan must be right."""
    from blueflame.session.from_settings import build_session_limits
    from blueflame.session.plan_problems import find_plan_problems

    limits = build_session_limits(project.settings, workflow)
    wrong = find_plan_problems(tasks, limits)
    if wrong:
        raise PlanError(f"the plan {plan} has problems:", wrong)


def print_warnings(project: Project) -> None:
    from blueflame.orchestrator.lifecycle import list_warnings

    for warning in project.loaded.warnings:
        print_text(f"blueflame: {warning}", err=True)
    for misgiving in list_warnings(project):
        print_text(f"blueflame: {misgiving}", err=True)
    if project.repo.submodules:
        names = ", ".join(project.repo.submodules)
        print_text(f"blueflame: submodules are left empty in agents' checkouts: {names}", err=True)


def refuse_unfinished(left: SessionInfo | None) -> None:
    if left is not None:
        raise Refused(
            f"{left.id} ({left.request.strip()[:60]}) is unfinished: continue it with 'blueflame resume', "
            "or abandon it with 'blueflame run --fresh ...'"
        )


def _should_resume(project: Project, journal: Journal, left: SessionInfo, options: RunOptions, *, fresh: bool) -> bool:
    """Whether to resume the unfinished session; `fresh` (or the answer) abandons it instead."""
    from blueflame.orchestrator.lifecycle import abandon_session

    choice = "fresh" if fresh else _ask_about_unfinished(journal, left, options)
    if choice == "quit":
        raise Refused(f"{left.id} is still unfinished: continue it with 'blueflame resume'")
    if choice == "fresh":
        abandon_session(project, journal, left.id)
    return choice == "resume"


def _ask_about_unfinished(journal: Journal, left: SessionInfo, options: RunOptions) -> str:
    import asyncio

    from blueflame.cli.console import make_console
    from blueflame.cli.gates.answerers import DecisionsAnswerer, TerminalAnswerer
    from blueflame.cli.live.view import choose_view
    from blueflame.orchestrator.sessions import load_session
    from blueflame.session.gates.questions import build_resume_gate
    from blueflame.system.terminal import is_interactive

    session = load_session(journal, left.id)
    gate = build_resume_gate(session)
    if options.decisions is not None:
        return asyncio.run(DecisionsAnswerer(options.decisions).ask(gate, session, "")).choice
    if not is_interactive() or options.as_json:
        refuse_unfinished(left)
    console = make_console()
    return asyncio.run(TerminalAnswerer(console, choose_view(console, quiet=True)).ask(gate, session, "")).choice
