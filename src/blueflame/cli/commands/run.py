"""`blueflame run`, `plan` and `resume`: run a session in this terminal, from the start, up to its plan, or again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from blueflame.cli.commands.house.requests import print_fate
from blueflame.cli.console import build_facts, make_console, print_view
from blueflame.cli.options import PATH, RUN_PARAMETERS, foreground_options, list_given, refuse_idle, session_argument
from blueflame.cli.output import outlive_output, print_json, print_result, print_text
from blueflame.cli.overrides import OVERRIDE_PARAMETERS, Overrides, list_overrides, override_options
from blueflame.cli.trust import open_trusted_project
from blueflame.model.errors import PlanError, Refused, UsageError
from blueflame.model.event import FixRequested, RequestSized
from blueflame.model.exit_codes import ExitCode
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.sizing import Tier
from blueflame.model.task import Task
from blueflame.orchestrator.project import Project, open_project
from blueflame.system.clock import SystemClock
from blueflame.system.terminal import is_interactive
from blueflame.views.session import build_session_json
from blueflame.views.triage import list_triage_facts

if TYPE_CHECKING:
    from blueflame.cli.foreground import RunOptions
    from blueflame.journal.journal import Journal, SessionInfo
    from blueflame.session.state import Session

MAX_REQUEST_CHARS = 200_000
text_argument = click.argument("text", required=False, help="What you want done, like --task.")
task_option = click.option("--task", "-t", help="What you want done; - reads it from standard input.")
plan_option = click.option("--plan", type=PATH, help="Use this plan (YAML or JSON) instead of a planner.")
workflow_option = click.option("--workflow", "-w", help="waves, flow, single, direct, or your own.")
tier_option = click.option(
    "--tier",
    type=click.Choice(["1", "2", "3"]),
    help="1: an obvious change, 2: one agent, 3: a plan; left out, the request is sized.",
)


@click.command()
@text_argument
@task_option
@plan_option
@tier_option
@workflow_option
@override_options
@click.option("--dry-run", is_flag=True, help="Show plan, schedule, cost and agents without starting anything.")
@click.option("--fresh", is_flag=True, help="Abandon an unfinished session without asking.")
@click.option(
    "--allow-dirty",
    is_flag=True,
    help="Start even if the checkout has changes; a landing there waits until it has none.",
)
@click.option("--detach", is_flag=True, help="Hand the request to the house ('blueflame serve') and return.")
@click.option("--request-id", default="", hidden=True, help="Of the house: a request has at most one session.")
@foreground_options
def run(
    *,
    text: str | None,
    task: str | None,
    plan: Path | None,
    tier: str | None,
    workflow: str | None,
    overrides: Overrides,
    dry_run: bool,
    fresh: bool,
    allow_dirty: bool,
    detach: bool,
    request_id: str,
    options: RunOptions,
) -> int:
    """Plan a request, work on it in parallel, check it, and land what you approve."""
    from blueflame.cli.foreground import run_session
    from blueflame.cli.stale_checkouts import handle_stale_checkouts
    from blueflame.git.repository import find_dirty_paths
    from blueflame.orchestrator.lifecycle import lock_project
    from blueflame.orchestrator.sessions import load_session

    if detach:
        refuse_idle("with --detach", "dry_run", "fresh", "allow_dirty", *OVERRIDE_PARAMETERS, *RUN_PARAMETERS)
        return _detach(read_request(text, task, plan), options, tier=tier, workflow=workflow)
    project = open_trusted_project(options.config, can_ask=options.can_ask_for_trust, base=overrides.base)
    request = read_request(text, task, plan)
    project, sized = _size_request(project, overrides, request, tier=tier, workflow=workflow)
    workflow = sized.triage.workflow if sized else workflow
    print_warnings(project)
    if dry_run:
        return _show_dry_run(project, request, workflow, options, sized)
    if request_id:  # what is not tracked, such as a plan file that was just saved, must not hold up the house
        allow_dirty = not find_dirty_paths(project.repo, untracked=False)
    check_request(project, request, options, workflow=workflow, allow_dirty=allow_dirty)
    with lock_project(project) as journal:
        if request_id and (name := journal.find_session_of(request_id)) is not None:
            begun = load_session(journal, name)  # by another process; one that has ended is not begun again
            return begun.exit_code if begun.ended else run_session(project, journal, begun, options)
        left = journal.find_unfinished()
        if left is not None and _should_resume(project, journal, left, options, fresh=fresh):
            if ignored := " and ".join(list_given("tier", "workflow", *OVERRIDE_PARAMETERS)):
                print_text(f"blueflame: {left.id} continues with its own settings: {ignored} ignored", err=True)
            return run_session(project, journal, load_session(journal, left.id), options)
        _warn_of_lost_sessions(project, journal)
        handle_stale_checkouts(project, journal, options)
        _print_size(sized, options)
        session = _open_session(
            project,
            journal,
            request,
            options,
            sized,
            workflow=workflow,
            allow_dirty=allow_dirty,
            request_id=request_id,
        )
        return run_session(project, journal, session, options)


def _detach(request: Request, options: RunOptions, *, tier: str | None, workflow: str | None) -> int:
    """Hand the request to the house of this repository."""
    from blueflame.house.client import build_common, open_house

    client = open_house(None)
    arrival = IncomingRequest(
        **build_common(client),
        text=request.text,
        repository=client.find_repository(open_project(options.config).config),
        plan=request.plan.read_text("utf-8") if request.plan is not None else "",
        tier=int(tier) if tier else None,
        workflow=workflow or "",
    )
    return print_fate(client, client.hand_in(arrival), as_json=options.as_json)


@click.command()
@text_argument
@task_option
@plan_option
@workflow_option
@override_options
@foreground_options
def plan(
    *,
    text: str | None,
    task: str | None,
    plan: Path | None,
    workflow: str | None,
    overrides: Overrides,
    options: RunOptions,
) -> int:
    """Plan a request and ask for approval; 'blueflame resume' starts the work."""
    from blueflame.cli.foreground import run_session
    from blueflame.orchestrator.lifecycle import lock_project
    from blueflame.session.state import Phase

    project = open_trusted_project(options.config, can_ask=options.can_ask_for_trust, base=overrides.base)
    request = read_request(text, task, plan)
    project, sized = _size_request(project, overrides, request, workflow=workflow, plans=True)
    print_warnings(project)
    check_request(project, request, options, workflow=workflow, allow_dirty=True)
    with lock_project(project) as journal:
        refuse_unfinished(journal.find_unfinished())
        session = _open_session(project, journal, request, options, sized, workflow=workflow, allow_dirty=True)
        return run_session(project, journal, session, options, until=lambda found: found.phase is Phase.WORKING)


@click.command()
@session_argument
@foreground_options
def resume(
    *,
    session: str | None,
    options: RunOptions,
) -> int:
    """Continue an unfinished session: running agents are adopted, nothing is done twice."""
    from blueflame.cli.foreground import run_session
    from blueflame.orchestrator.lifecycle import lock_project
    from blueflame.orchestrator.sessions import find_session, load_session, open_journal

    project = open_trusted_project(options.config, can_ask=options.can_ask_for_trust)
    with open_journal(project):
        pass  # refuse before any folder is made, where no session was ever started
    with lock_project(project) as journal:
        left = journal.find_unfinished()
        if session is None and left is None:
            _warn_of_lost_sessions(project, journal)
        name = left.id if session is None and left is not None else find_session(journal, session)
        found = load_session(journal, name)
        if found.ended:
            if options.as_json:  # a program gets its one object in any case
                print_json(build_session_json(found, now=SystemClock().now()) | {"error": None})
            print_text(
                f"nothing to resume: {name} has ended ({found.outcome}). Start a new session with 'blueflame run'",
                err=True,
            )
            return found.exit_code  # its process may have been killed before it could give it
        if options.script is None and _was_rehearsed(project, found):
            raise UsageError(f"the agents of {name} play a script: name it again with 'blueflame resume --script FILE'")
        if not options.as_json and not options.quiet:
            with outlive_output():
                print_text(f"resuming {name}: {found.request.splitlines()[0][:100]}")
        return run_session(project, journal, found, options)


def _was_rehearsed(project: Project, found: Session) -> bool:
    """Whether it was begun with `--script`: roles are scripted that are not in the configuration."""
    from blueflame.session.from_settings import choose_runtime

    used, roles = found.limits.role_runtimes, project.settings.roles.items()
    played = (role for name, role in roles if used.get(name) == "scripted")
    return any(choose_runtime(project.settings, role) != "scripted" for role in played)


def _size_request(
    project: Project,
    overrides: Overrides,
    request: Request,
    *,
    tier: str | None = None,
    workflow: str | None = None,
    plans: bool = False,
) -> tuple[Project, RequestSized | None]:
    """Size the request, and return the project with the options of the command line, which depend on its workflow.

    `plans`: a plan is what the person asked for. A plan of their own is not sized.
    """
    from blueflame.orchestrator.triage import triage_request
    from blueflame.session.from_settings import build_workflow
    from blueflame.session.sizing.choose import SUGGEST, find_triage_mode

    if tier is not None and request.tasks is not None:
        raise UsageError("--tier and --plan contradict each other: a plan is not sized; give --workflow instead")
    settings = project.settings
    try:
        build_workflow(settings, workflow)  # one that cannot run is refused before anything is read
    except UsageError as error:
        key = f": workflows.{workflow or settings.planning.workflow}.stages: "
        raise UsageError(next((each for each in project.loaded.warnings if key in each), str(error))) from error
    if request.tasks is not None:
        return project.override(list_overrides(overrides, settings, workflow)), None
    mode = SUGGEST if plans else find_triage_mode(settings)
    chosen = Tier(int(tier)) if tier else None
    without_models = project.override(list_overrides(overrides._replace(models=()), settings, workflow))
    sized = triage_request(without_models, request.text, mode=mode, tier=chosen, workflow=workflow)
    found = sized.triage.workflow if sized else workflow
    return project.override(list_overrides(overrides, settings, found)), sized


@outlive_output()
def _print_size(sized: RequestSized | None, options: RunOptions) -> None:
    if sized is not None and not options.as_json and not options.quiet:
        print_view(make_console(), build_facts(list_triage_facts(sized.triage)))


class Request(NamedTuple):
    text: str
    tasks: Sequence[Task] | None  # a person's own plan
    plan: Path | None  # its file


def read_request(text: str | None, task: str | None, plan: Path | None) -> Request:
    """Read the request from the command line or standard input, and the plan if one is given."""
    if text is not None and task is not None:
        raise UsageError("the request is given twice: as an argument and with --task; give it once")
    task = text if task is None else task
    if task is not None:
        task = read_words(task, "the request")
    if plan is not None:
        from blueflame.documents.plans import read_plan

        return Request(task or f"the plan in {plan.name}", read_plan(plan), plan)
    if task is None or not task.strip():
        raise UsageError('no request: pass --task "...", --task - to read it from standard input, or --plan FILE')
    return Request(task, None, None)


def read_words(text: str, what: str) -> str:
    """Return the text, or for - what is on standard input."""
    words = sys.stdin.read(MAX_REQUEST_CHARS + 1) if text == "-" else text
    if len(words) > MAX_REQUEST_CHARS:
        raise UsageError(
            f"{what} is longer than {MAX_REQUEST_CHARS:,} characters: no agent could read all of it. "
            "Put the text into a file of the repository, and name that file in a short one"
        )
    return words


def check_request(
    project: Project, request: Request, options: RunOptions, *, workflow: str | None, allow_dirty: bool
) -> None:
    """Refuse a bad request before any folder, journal or session is created."""
    from blueflame.orchestrator.lifecycle import check_prerequisites, check_runtimes
    from blueflame.session.from_settings import build_workflow

    flow, script, replay = build_workflow(project.settings, workflow), options.script, options.cassette.replay
    if _has_unfinished_session(project):  # an unfinished session passed these checks
        check_runtimes(project, flow, script=script, replay=replay)
    else:
        check_prerequisites(project, flow, script=script, replay=replay, allow_dirty=allow_dirty)
    _check_plan(project, request, flow.name)


def _has_unfinished_session(project: Project) -> bool:
    from blueflame.orchestrator.sessions import open_journal

    if not project.state.journal.exists():
        return False
    with open_journal(project) as journal:
        return journal.find_unfinished() is not None


def _check_plan(project: Project, request: Request, workflow: str) -> None:
    """Refuse a person's own plan with problems; a planner's plan is corrected at the gate."""
    from blueflame.session.from_settings import build_session_limits
    from blueflame.session.plan_problems import find_plan_problems

    if request.tasks is None:
        return
    limits = build_session_limits(project.settings, workflow)
    wrong = find_plan_problems(request.tasks, limits)
    if wrong:
        raise PlanError(f"{f'the plan {request.plan}' if request.plan else 'the task'} has problems:", wrong)


def start_session(
    project: Project,
    request: Request,
    options: RunOptions,
    *,
    workflow: str | None,
    allow_dirty: bool,
    fix: FixRequested | None = None,
) -> int:
    """Start a session of one task, and run it; refuse while another is unfinished."""
    from blueflame.cli.foreground import run_session
    from blueflame.cli.stale_checkouts import handle_stale_checkouts
    from blueflame.orchestrator.lifecycle import lock_project

    print_warnings(project)
    check_request(project, request, options, workflow=workflow, allow_dirty=allow_dirty)
    with lock_project(project) as journal:
        refuse_unfinished(journal.find_unfinished())
        handle_stale_checkouts(project, journal, options)
        session = _open_session(
            project, journal, request, options, None, workflow=workflow, allow_dirty=allow_dirty, fix=fix
        )
        return run_session(project, journal, session, options)


def _open_session(
    project: Project,
    journal: Journal,
    request: Request,
    options: RunOptions,
    sized: RequestSized | None,
    *,
    workflow: str | None,
    allow_dirty: bool,
    request_id: str = "",
    fix: FixRequested | None = None,
) -> Session:
    """Open a new session, with an interactive planner if one is possible here."""
    from blueflame.cli.foreground import can_planner_talk
    from blueflame.orchestrator.lifecycle import open_session

    return open_session(
        project,
        journal,
        request=request.text,
        workflow=workflow,
        tasks=request.tasks,
        sized=sized,
        fix=fix,
        allow_dirty=allow_dirty,
        scripted=options.script is not None,
        interactive=can_planner_talk(project, options, workflow=workflow, planned=request.tasks is not None),
        request_id=request_id,
    )


def _show_dry_run(
    project: Project, request: Request, workflow: str | None, options: RunOptions, sized: RequestSized | None
) -> int:
    """Print the plan, its schedule, cost and agents; start and write nothing."""
    from blueflame.cli.render.plan import render_dry_run
    from blueflame.orchestrator.lifecycle import build_limits
    from blueflame.orchestrator.wiring import build_runtime_set
    from blueflame.session.from_settings import build_workflow
    from blueflame.views.plan import build_dry_run_json, build_dry_run_view

    asking = sized.workflow if sized else None  # an agent sizes the request first
    flow, tasks = asking or build_workflow(project.settings, workflow), request.tasks
    limits = build_limits(project, flow.name, scripted=options.script is not None)
    if tasks is None:
        tasks = build_runtime_set(project, script=options.script).find_known_plan(request.text, flow)
    is_plan = tasks is not None and (request.tasks is not None or flow.is_planned)
    by_hand = request.tasks is not None
    triage = sized.triage if sized else None
    view = build_dry_run_view(request.text, tasks, flow, limits, is_plan=is_plan, is_planned=by_hand, triage=triage)
    print_result(build_dry_run_json(view) if options.as_json else render_dry_run(view))
    return ExitCode.USAGE if view.plan.problems else ExitCode.OK


def print_warnings(project: Project) -> None:
    from blueflame.git.filters import find_used_filters
    from blueflame.git.repository import MISSING_HISTORY, is_partial
    from blueflame.orchestrator.lifecycle import list_warnings

    names = ", ".join(project.repo.submodules)
    submodules = [f"submodules are left empty in agents' checkouts: {names}"] if names else []
    filters = ", ".join(find_used_filters(project.repo, project.repo.base_sha))
    stored = f"files of the git filter {filters} are in agents' checkouts as git stores them; no result may change them"
    filtered = [stored] if filters else []
    partial = [f"in this partial clone {MISSING_HISTORY}"] if is_partial(project.repo) else []
    for warning in (*project.loaded.warnings, *list_warnings(project), *submodules, *filtered, *partial):
        print_text(f"blueflame: {warning}", err=True)


def _warn_of_lost_sessions(project: Project, journal: Journal) -> None:
    """Say it when git has commits of sessions that the journal has lost: it was deleted, or its -wal file."""
    from blueflame.orchestrator.sessions import find_unknown_sessions

    if unknown := find_unknown_sessions(project.repo, frozenset(journal.list_ids())):
        print_text(
            f"blueflame: the journal {journal.path} knows nothing of {', '.join(unknown)}, whose commits are under "
            "refs/blueflame/: it was deleted, or has lost its newest events. Put it back if you have a copy; "
            "'blueflame cleanup' removes what is no longer needed",
            err=True,
        )


def refuse_unfinished(left: SessionInfo | None) -> None:
    if left is not None:
        raise Refused(
            f"{left.id} ({left.request.strip()[:60]}) is unfinished: continue it with 'blueflame resume', "
            "or abandon it with 'blueflame run --fresh ...'"
        )


def _should_resume(project: Project, journal: Journal, left: SessionInfo, options: RunOptions, *, fresh: bool) -> bool:
    """Whether to resume the unfinished session; `fresh` (or the answer) abandons it instead."""
    from blueflame.cli.foreground import ensure_session_trust
    from blueflame.orchestrator.lifecycle import abandon_session
    from blueflame.orchestrator.sessions import load_session

    choice = "fresh" if fresh else _ask_about_unfinished(journal, left, options)
    if choice == "quit":
        raise Refused(f"{left.id} is still unfinished: continue it with 'blueflame resume'")
    if choice == "fresh":
        ensure_session_trust(project, load_session(journal, left.id), options)
        abandon_session(project, journal, left.id)
    return choice == "resume"


def _ask_about_unfinished(journal: Journal, left: SessionInfo, options: RunOptions) -> str:
    from blueflame.cli.gates.answerers import DecisionsAnswerer, TerminalAnswerer
    from blueflame.cli.live.view import choose_view
    from blueflame.orchestrator.sessions import load_session
    from blueflame.session.gates.questions import build_resume_gate

    session = load_session(journal, left.id)
    gate = build_resume_gate(session)
    if options.decisions is not None:
        return asyncio.run(DecisionsAnswerer(options.decisions).ask(gate, session, "")).choice
    if not is_interactive() or options.as_json:
        refuse_unfinished(left)
    console = make_console()
    return asyncio.run(TerminalAnswerer(console, choose_view(console, quiet=True)).ask(gate, session, "")).choice
