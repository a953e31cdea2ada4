"""Run a session in this terminal: the view, the answerer of gates, and the summary at the end."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from blueflame.cli.agent_shell import refuse_agent_shell
from blueflame.cli.console import make_console, print_view
from blueflame.cli.gates.answerers import DecisionsAnswerer, TerminalAnswerer, WaitingAnswerer
from blueflame.cli.gates.chat import AgentChat, AnswererAfterChat
from blueflame.cli.live.view import ActivityReader, LiveView, choose_view
from blueflame.cli.output import outlive_output, print_json, print_text
from blueflame.cli.render.session import render_summary
from blueflame.cli.trust import ensure_trust
from blueflame.documents.decisions import DecisionsFile, load_decisions
from blueflame.journal.journal import Journal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError, Refused, UsageError
from blueflame.model.exit_codes import ExitCode
from blueflame.model.gate import Gate
from blueflame.orchestrator.context import NO_CASSETTE, Cassette, SessionContext
from blueflame.orchestrator.engine.start_warden import prepare_wardens
from blueflame.orchestrator.lifecycle import execute_session
from blueflame.orchestrator.loop import GateAnswerer
from blueflame.orchestrator.monitors.person_locks import show_locks
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.session_settings import find_settings
from blueflame.orchestrator.wiring import build_context
from blueflame.session.estimate import estimate_cost, is_planned_by_hand
from blueflame.session.from_settings import build_workflow, is_planner_interactive
from blueflame.session.state import Session
from blueflame.system.bus_error import exit_on_bus_error
from blueflame.system.layout import POOL_VARIABLE
from blueflame.system.terminal import is_interactive
from blueflame.system.threads import run_pooled
from blueflame.telemetry.activity import ActivityTracker
from blueflame.text.sanitize import clean_text
from blueflame.views.item_diff import read_item_diff
from blueflame.views.items import GATE, Item, find_item_diff
from blueflame.views.session import build_session_json, build_summary_view

TICK_SECONDS = 0.25
BUS_ERROR = (
    "the journal in {folder} cannot be used any more (bus error): its files were made immutable (see lsattr) or "
    "cut off, or the disk fails. Repair that, then run 'blueflame resume'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of run, plan and resume."""

    script: Path | None = None
    decisions: DecisionsFile | None = None
    cassette: Cassette = NO_CASSETTE
    as_json: bool = False
    quiet: bool = False
    config: Path | None = None  # as given, for the command that resumes
    kept: bool = True  # False if the repository is deleted afterwards

    @property
    def can_ask_for_trust(self) -> bool:
        """A decisions file answers gates, and grants no trust."""
        return self.decisions is None and not self.as_json

    @property
    def why_silent(self) -> str:
        """Why no agent can talk with a person here; empty when one can."""
        reasons = {
            "a decisions file is given": self.decisions is not None,
            "a cassette is given": self.cassette != NO_CASSETTE,
            "--json is given": self.as_json,
            "--quiet is given": self.quiet,
            "no terminal": not is_interactive(),
        }
        return next((words for words, holds in reasons.items() if holds), "")


def read_options(
    config: Path | None,
    *,
    decisions: Path | None,
    script: Path | None,
    record: Path | None,
    replay: Path | None,
    as_json: bool,
    quiet: bool,
) -> RunOptions:
    if decisions is not None:
        refuse_agent_shell("a decisions file")
    return RunOptions(
        script=script,
        decisions=load_decisions(decisions) if decisions is not None else None,
        cassette=_read_cassette(record, replay),
        as_json=as_json,
        quiet=quiet,
        config=config,
    )


def _read_cassette(record: Path | None, replay: Path | None) -> Cassette:
    if record is not None and replay is not None:
        raise UsageError("--record and --replay cannot be combined")
    if replay is not None and not replay.is_file():
        raise UsageError(f"--replay: no cassette at {replay}; --record {replay} writes one")
    if record is not None and not record.absolute().parent.is_dir():
        raise UsageError(f"--record: no folder {record.absolute().parent}")
    return Cassette(record=record and record.absolute(), replay=replay and replay.absolute())


@outlive_output()
def run_session(
    project: Project,
    journal: Journal,
    session: Session,
    options: RunOptions,
    *,
    until: Callable[[Session], bool] = lambda _session: False,
    also: Mapping[str, Callable[[], object]] | None = None,
) -> int:
    """Run a session until it ends or stops, and return the exit code. `also` is added to what --json prints."""
    exit_on_bus_error(f"blueflame: {BUS_ERROR.format(folder=project.paths.state)}\n", ExitCode.WORLD)
    ensure_session_trust(project, session, options)
    prepare_wardens(project.paths.logs)
    context = build_context(project, session, script=options.script, cassette=options.cassette)
    console = make_console()
    activities = ActivityReader(ActivityTracker(context.runtimes, context.engine.mirror, context.paths.audit), session)
    read_locks = partial(show_locks, project.paths.state)
    view = choose_view(console, activities, quiet=options.quiet or options.as_json, read_locks=read_locks)
    answerer = _choose_answerer(context, view, options)
    if not options.why_silent:
        conversation = AgentChat(console, view)
        context, answerer = replace(context, converse=conversation), AnswererAfterChat(answerer, conversation, console)
    warn, failure = _build_warner(console), ""
    try:
        run_pooled(_run_with_ticks(context, journal, session, view, answerer=answerer, warn=warn, until=until))
    except BlueFlameError as error:
        if options.as_json and not session.ended:  # a program gets its one object in any case
            _print_json(session, context, also or {}, error=str(error))
        if not session.ended:
            raise
        failure = str(error)  # the outcome is recorded: what fails afterwards does not change it
    finally:
        view.close()
    if options.as_json:
        _print_json(session, context, also or {}, error=failure or None)
    else:
        _print_summary(session, context, options, done=until(session))
    if failure:
        warn(failure)
    return ExitCode.OK if until(session) else session.exit_code


def ensure_session_trust(project: Project, session: Session, options: RunOptions) -> None:
    """Ask about the settings of an unfinished session, where they are not those of the file."""
    project = project.override(session.overrides)
    ensure_trust(project, find_settings(project, session), can_ask=options.can_ask_for_trust)


def can_planner_talk(project: Project, options: RunOptions, *, workflow: str | None, planned: bool) -> bool:
    """Whether the planner of a new session can talk with the person; prints why not if it was asked to."""
    settings = project.settings
    flow = build_workflow(settings, workflow)
    if (
        planned
        or not flow.is_planned
        or not is_planner_interactive(settings, flow.name, scripted=options.script is not None)
    ):
        return False
    asked_for = options.decisions is not None or "interactive" in settings.planning.model_fields_set
    if options.why_silent and asked_for:
        print_text(
            f"blueflame: the planner is not interactive (planning.interactive): {options.why_silent}",
            err=True,
        )
    return not options.why_silent


async def _run_with_ticks(
    context: SessionContext,
    journal: Journal,
    session: Session,
    view: LiveView,
    *,
    answerer: GateAnswerer,
    warn: Callable[[str], None],
    until: Callable[[Session], bool],
) -> None:
    ticking = asyncio.create_task(_tick_view(context, view))
    try:
        await execute_session(context, journal, session, answerer=answerer, observers=[view], warn=warn, until=until)
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking


async def _tick_view(context: SessionContext, view: LiveView) -> None:
    while True:
        await context.clock.sleep(TICK_SECONDS)
        view.tick(context.clock.now())


def _build_warner(console: Console) -> Callable[[str], None]:
    """Build the printer of warnings. On a terminal it uses the frame's console, else the frame would overwrite them."""

    def warn(text: str) -> None:
        if console.is_terminal:
            console.print(Text(f"blueflame: {clean_text(text)}", "warn"), soft_wrap=True)
        else:
            print_text(f"blueflame: {text}", err=True)

    return warn


def _choose_answerer(context: SessionContext, view: LiveView, options: RunOptions) -> GateAnswerer:
    """Choose what answers gates: a decisions file, else the person at this terminal, else another terminal."""
    if options.decisions is not None:
        return DecisionsAnswerer(options.decisions)
    if is_interactive() and not options.as_json:
        return TerminalAnswerer(make_console(), view, build_diff_reader(context))
    return WaitingAnswerer(make_console(stderr=True), in_house=POOL_VARIABLE in os.environ)


def build_diff_reader(context: SessionContext) -> Callable[[Session, Gate], Callable[[], str] | None]:
    def find_diff(session: Session, gate: Gate) -> Callable[[], str] | None:
        if gate.id not in session.gates:  # it is asked before a session begins
            return None
        try:
            source = find_item_diff(session, Item(GATE, gate.id))
        except Refused:
            return None
        return partial(read_item_diff, context.repo, source)

    return find_diff


def _print_json(
    session: Session, context: SessionContext, also: Mapping[str, Callable[[], object]], *, error: str | None = None
) -> None:
    data = build_session_json(session, now=context.clock.now()) | {"error": error}
    print_json(data | {name: read() for name, read in also.items()})


def _print_summary(session: Session, context: SessionContext, options: RunOptions, *, done: bool) -> None:
    now = context.clock.now()
    tasks = [record.task for record in session.tasks.values()]
    by_hand = is_planned_by_hand(session)
    estimate = estimate_cost(tasks, session.limits, session.workflow, is_planned=by_hand) if tasks else None
    if not options.quiet:
        print_text()
    print_view(make_console(), render_summary(build_summary_view(session, now=now, estimate=estimate)))
    if started := [name for name in session.live if session.attempts[name].started_at is not None]:
        names = ", ".join(session.live[name].agent_id for name in started)
        print_text(f"\nStill running: {names} (see 'blueflame status').")
    if not session.ended:
        print_text(f"\n{_suggest_next_command(options, done=done)}")


def _suggest_next_command(options: RunOptions, *, done: bool) -> str:
    """Return the command that continues, with the options of this one: sessions do not store them."""
    if not options.kept:
        return "Stopped; the throw-away repository was deleted. To keep it: blueflame demo --in FOLDER"
    decisions = options.decisions.path if options.decisions else None
    given = {
        "--config": options.config,
        "--script": options.script,
        "--decisions-file": decisions,
        "--record": options.cassette.record,
        "--replay": options.cassette.replay,
    }
    flags = [word for flag, path in given.items() if path is not None for word in (flag, str(path))]
    words = "Plan approved" if done else "Stopped"
    return f"{words}. Continue with: {shlex.join(['blueflame', 'resume', *flags])}"
