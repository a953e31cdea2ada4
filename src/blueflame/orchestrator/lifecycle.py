"""Lock the repository, check it, open a session, run it, abandon it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from blueflame import __version__
from blueflame.config.show import format_resolved_json
from blueflame.git.batch import close_idle
from blueflame.git.checkouts import remove_tree
from blueflame.git.filters import list_filter_drivers
from blueflame.git.locks import remove_broken_refs, remove_stale_locks
from blueflame.git.repository import exclude_from_status, protect_from_clean
from blueflame.git.trees import list_tree_files
from blueflame.git.untrusted.moved import follow_repository
from blueflame.journal.journal import Journal
from blueflame.model.attempt import PLANNER
from blueflame.model.errors import NoAnswer, Refused, WorldError
from blueflame.model.event import (
    Event,
    FixRequested,
    JournalEntry,
    OrchestratorStarted,
    RequestSized,
    SessionEnded,
    SessionOpened,
)
from blueflame.model.gate import Answer, Gate
from blueflame.model.ids import build_session_id
from blueflame.model.limits import Limits
from blueflame.model.seat import Team
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.base_branch import find_missing_base
from blueflame.orchestrator.baseline import describe_baseline
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.start_warden import close_fork_server
from blueflame.orchestrator.foreground_sandbox import describe_degraded
from blueflame.orchestrator.loop import GateAnswerer, Observer, SessionLoop
from blueflame.orchestrator.observers.death_notice import start_death_notice
from blueflame.orchestrator.preflight import (
    check_repository,
    find_blockers,
    find_memory_warnings,
    raise_refusal,
    refuse_foreign_state,
)
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.reconcile import (
    describe_lost_events,
    end_unfounded,
    find_missing_work,
    refuse_lost_landings,
    remove_unopened,
    set_aside_unknown,
)
from blueflame.orchestrator.session_settings import save_settings
from blueflame.orchestrator.sessions import list_foreign_sessions, list_kept_answers, load_session
from blueflame.orchestrator.triage import list_known_records
from blueflame.orchestrator.trust import require_trust
from blueflame.orchestrator.wiring import build_context, build_runtime_set, find_memory_problem, run_observers
from blueflame.paths.domains import find_split_folders
from blueflame.session.decide import FIX
from blueflame.session.estimate import learn_figures
from blueflame.session.from_settings import build_session_limits, build_workflow
from blueflame.session.gates.answers import build_proposal
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.session.team.seats import learn_seats
from blueflame.session.unsupported_settings import find_ignored_settings
from blueflame.system import flock
from blueflame.system.clock import SystemClock
from blueflame.system.disk import check_file_sizes
from blueflame.system.environment import CALLER_VARIABLE
from blueflame.system.files import remove_drafts, rotate_log, write_atomically
from blueflame.system.layout import STATE_FOLDER, make_folder
from blueflame.system.threads import open_thread_pool, run_pooled


@contextmanager
def lock_project(project: Project) -> Iterator[Journal]:
    """Hold the lock of the repository and open the journal; a second orchestrator is refused and changes nothing."""
    require_trust(project)
    check_file_sizes()
    paths = project.paths
    prepare_folders(project)
    try:
        note = flock.format_lock_note("orchestrator")
        with flock.hold_lock(paths.lock, note), Journal.open(paths.journal) as journal:
            journal.refuse_damage()
            remove_stale_locks(project.repo, alone=True)
            rotate_log(paths.activity_log)
            with suppress(WorldError, OSError):  # the next start does it
                remove_tree(paths.scans)
                remove_unopened(project.repo, paths.sessions, frozenset(journal.list_ids()))
            remove_drafts(paths.tasks_file, paths.agents_file, paths.resolved_config)
            write_atomically(paths.resolved_config, format_resolved_json(project.settings))
            yield journal
    except flock.LockHeld as held:
        pid = held.holder.split(" ")[0] or "unknown"
        raise Refused(
            f"another Blue Flame runs in {project.repo.root} (pid {pid}): "
            "watch it with 'blueflame watch', answer it with 'blueflame answer', stop it with 'blueflame stop'"
        ) from held


def prepare_folders(project: Project) -> None:
    """Make the folders and keep `git status` and `git clean` out of them. Idempotent.

    Raises Refused where the repository brings such a folder.
    """
    paths = project.paths
    refuse_foreign_state(project.repo, paths)
    paths.make_folders()
    protect_from_clean(paths.state)
    inside = [f"/{STATE_FOLDER}"]  # without a slash at the end: a person may have put a link to another disk there
    if paths.worktrees.is_relative_to(paths.root):
        make_folder(paths.worktrees)
        protect_from_clean(paths.worktrees)
        inside.append(f"/{paths.worktrees.relative_to(paths.root)}")
    if not paths.tasks_file.is_relative_to(paths.state):
        file = paths.tasks_file.relative_to(paths.root)
        inside += [f"/{file}", f"/{file}.edited*"]
    exclude_from_status(project.repo, inside)


def open_session(
    project: Project,
    journal: Journal,
    *,
    request: str,
    workflow: str | None = None,
    tasks: Sequence[Task] | None = None,
    sized: RequestSized | None = None,
    fix: FixRequested | None = None,
    allow_dirty: bool = False,
    scripted: bool = False,
    interactive: bool = False,
    request_id: str = "",
) -> Session:
    """Open a session; with `tasks`, they are the plan and only need approval. `sized`: the size of the request. `fix`:
    what the only task fixes; it needs no approval.

    `scripted`: every role plays a script. `interactive`: a person talks with the planner.
    """
    flow = build_workflow(project.settings, workflow)
    check_repository(project.repo, project.paths, project.settings, allow_dirty=allow_dirty, config=project.config)
    with flock.hold_folder(project.repo.common_dir):  # no two worktrees choose the same id: refs are named by it
        now = SystemClock().now()
        others = list_foreign_sessions(project.repo, readable_only=True)
        name = build_session_id(now, others.union(journal.list_ids()))
        opened = SessionOpened(
            session=name,
            request=request,
            project=project.settings.project.name,
            base_branch=project.repo.base_branch,
            base_sha=project.repo.base_sha,
            workflow=flow,
            limits=build_limits(project, flow.name, scripted=scripted, interactive=interactive),
            config_digest=project.loaded.digest,
            overrides=project.overrides,
            team=_find_team(project),
            request_id=request_id,
            filters=list_filter_drivers(project.repo.root),
        )
        save_settings(project.state, name, project.settings)
        session = replay([JournalEntry(1, now, opened)])
        origin = FIX if fix is not None else "file"
        own: list[Event] = [build_proposal(session, tuple(tasks), origin, 1)] if tasks is not None else []
        size = [each for each in (sized, fix) if each is not None]
        # in one transaction: after a crash between the two, a planner would be asked for another plan
        return replay(journal.append(name, 0, [opened, *size, *own], now))


def build_limits(project: Project, workflow: str, *, scripted: bool = False, interactive: bool = False) -> Limits:
    """Build the limits of a new session, with the costs of earlier ones."""
    limits = build_session_limits(project.settings, workflow, scripted=scripted, interactive=interactive)
    return replace(limits, figures=learn_figures(list_known_records(project)))


def _find_team(project: Project) -> Team:
    """Find who is in the team, and which folders tell domains apart."""
    files = list_tree_files(project.repo, project.repo.base_sha)
    return Team(seats=learn_seats(list_known_records(project)), split=find_split_folders(files))


def abandon_session(project: Project, journal: Journal, session: str) -> None:
    """End a session to start a new one: its agents are ended and their commits are collected."""
    found = load_session(journal, session)
    reason = "a fresh session was started instead"
    run_pooled(execute_session(build_context(project, found), journal, found, answerer=NoAnswerer(), stop=reason))
    ended = SessionEnded(outcome="abandoned", reason=reason)
    journal.append(found.id, found.seq, [ended], SystemClock().now())


class NoAnswerer:
    """Answers no gate: for sessions that are only stopped."""

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:  # noqa: ARG002 (of the protocol)
        raise NoAnswer(f"{gate.id} cannot be answered: the session is being stopped")


def check_runtimes(project: Project, flow: Workflow, *, script: Path | None = None, replay: Path | None = None) -> None:
    """Refuse when agents could not be started, also when a session is resumed."""
    raise_refusal(project.repo, build_runtime_set(project, script=script, replay=replay).find_reasons(flow))


def check_prerequisites(
    project: Project,
    flow: Workflow,
    *,
    script: Path | None = None,
    replay: Path | None = None,
    allow_dirty: bool = False,
) -> None:
    """Refuse, with every reason at once, before a session exists."""
    blockers = find_blockers(
        project.repo, project.paths, project.settings, allow_dirty=allow_dirty, config=project.config
    )
    runtimes = build_runtime_set(project, script=script, replay=replay)
    raise_refusal(project.repo, (*blockers, *runtimes.find_reasons(flow)))


def list_warnings(project: Project) -> tuple[str, ...]:
    """What a person should know before a session; no reason to refuse it."""
    memory, planner = find_memory_problem(project), project.settings.roles[PLANNER].runtime
    return (
        *find_memory_warnings(project.paths, project.settings),
        *([memory] if memory else []),
        *([degraded] if (degraded := describe_degraded(project.settings.sandbox.level)) else []),
        *([baseline] if (baseline := describe_baseline(project.paths.baseline, project.settings)) else []),
        *find_ignored_settings(project.settings, {PLANNER: planner} if planner else {}),
    )


async def execute_session(
    context: SessionContext,
    journal: Journal,
    session: Session,
    *,
    answerer: GateAnswerer,
    observers: Sequence[Observer] = (),
    warn: Callable[[str], None] = lambda _text: None,
    until: Callable[[Session], bool] = lambda _session: False,
    stop: str = "",
) -> Session:
    """Run the session until it ends or is stopped. With `stop` (the reason) it is stopped at once."""
    asyncio.get_running_loop().set_default_executor(open_thread_pool())
    missing, lost = ((), "") if stop else await _reconcile(context, journal, session)
    if lost:
        warn(f"{lost}; what they recorded is decided and done again")
    if missing:
        warn(f"commits are no longer in the repository, this work is done again: {', '.join(missing)}")
    started = OrchestratorStarted(
        pid=os.getpid(),
        host=socket.gethostname(),
        version=__version__,
        missing=missing,
        lost=lost,
        client=context.environ.get(CALLER_VARIABLE, ""),
        degraded=await asyncio.to_thread(describe_degraded, context.settings.sandbox.level),
        answered=tuple(str(kept.body.get("gate")) for kept in list_kept_answers(journal, session.id)),
    )
    try:
        async with run_observers(context, journal, session, warn) as ours:
            loop = SessionLoop(context, journal, session, answerer=answerer, observers=(*ours, *observers), until=until)
            if stop:
                loop.stop(stop)
            else:
                await asyncio.to_thread(start_death_notice, context, session)
                loop.submit(await asyncio.to_thread(find_missing_base, context.repo, session))
            with _handle_signals(loop, warn):
                await loop.run(started)
        journal.refuse_unsaved_damage()
    finally:
        close_idle()
        close_fork_server()
    return session


async def _reconcile(context: SessionContext, journal: Journal, session: Session) -> tuple[tuple[str, ...], str]:
    """Compare the journal with the world; return the work that git has lost, and what the journal has lost."""
    await asyncio.to_thread(remove_broken_refs, context.repo)
    await asyncio.to_thread(refuse_lost_landings, context.repo, session, journal.path)
    unknown = await set_aside_unknown(context, session)
    await asyncio.to_thread(follow_repository, context.repo, context.paths.worktrees)
    missing = await asyncio.to_thread(find_missing_work, context.repo, session)
    await end_unfounded(context, session, missing)
    return missing, describe_lost_events(journal.count_lost(session.id), unknown)


@contextmanager
def _handle_signals(session_loop: SessionLoop, warn: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C asks agents to end, the second kills them; a closed terminal leaves them running."""
    loop = asyncio.get_running_loop()
    asked = 0

    def stop(name: str) -> None:
        nonlocal asked
        asked += 1
        warn("stopping: agents are asked to end (once more to end them at once)" if asked == 1 else "stopping at once")
        session_loop.stop(f"stopped by {name}", now=asked > 1)

    def leave() -> None:
        session_loop.stop("the terminal was closed", leave_agents=True)

    handlers: Mapping[signal.Signals, Callable[[], None]] = {
        signal.SIGINT: lambda: stop("Ctrl-C"),
        signal.SIGTERM: lambda: stop("SIGTERM"),
        signal.SIGHUP: leave,
    }
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
