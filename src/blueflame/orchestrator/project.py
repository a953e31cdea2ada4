"""The wiring: from a configuration to a session under way. The only module that names concrete tools."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from blueflame import __version__
from blueflame.agents.registry import RUNTIMES
from blueflame.agents.runtime import Runtime
from blueflame.config.load import LoadedConfig, load_config
from blueflame.config.locate import find_config
from blueflame.config.show import compute_digest, format_resolved_json
from blueflame.git.repository import Repository, exclude_from_status, open_repository
from blueflame.journal.journal import Journal, SessionInfo
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.registry import build_builtin, build_memory, describe_memory_problem
from blueflame.model.attempt import PLANNER
from blueflame.model.errors import MemoryFailed, NoAnswer, Refused, UsageError
from blueflame.model.event import (
    Event,
    JournalEntry,
    OrchestratorStarted,
    SessionEnded,
    SessionOpened,
)
from blueflame.model.gate import Answer, Gate
from blueflame.model.ids import build_session_id
from blueflame.model.limits import Limits, Workflow
from blueflame.model.settings import Settings
from blueflame.model.task import Task
from blueflame.orchestrator.context import NO_CASSETTE, Cassette, SessionContext
from blueflame.orchestrator.cycle_boundary import load_settings, save_settings
from blueflame.orchestrator.engine.health import HealthMonitor, HealthReport
from blueflame.orchestrator.engine.local import LocalEngine
from blueflame.orchestrator.engine.presence import (
    OrchestratorPresence,
    RunningCommand,
    find_running_commands,
    read_presence,
)
from blueflame.orchestrator.loop import GateAnswerer, Observer, SessionLoop
from blueflame.orchestrator.observers.exports import run_exporter
from blueflame.orchestrator.observers.memory import run_memory_writer
from blueflame.orchestrator.observers.notifications import run_notifications
from blueflame.orchestrator.preflight import check_repository, find_blockers, find_memory_warnings, raise_refusal
from blueflame.orchestrator.runtimes import RuntimeSet
from blueflame.sandbox.toolchains import find_toolchains
from blueflame.session.estimate import learn_figures
from blueflame.session.from_settings import build_session_limits, build_workflow, find_runtime_kind
from blueflame.session.gates.answers import build_proposal
from blueflame.session.replay import apply_event, replay
from blueflame.session.runtime_support import find_ignored_settings
from blueflame.session.state import Session
from blueflame.system import flock
from blueflame.system.clock import SystemClock
from blueflame.system.files import remove_drafts, write_atomically
from blueflame.system.layout import STATE_FOLDER, ProjectPaths
from blueflame.system.wakeups import send_wakeup
from blueflame.telemetry.activity import ActivityTracker


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One repository with its configuration: what every verb stands on."""

    loaded: LoadedConfig
    repo: Repository
    places: ProjectPaths

    @property
    def settings(self) -> Settings:
        return self.loaded.settings


def open_project(config: Path | None = None, *, start: Path | None = None) -> Project:
    """Read the configuration, open the repository; refuses with every reason when either will not do."""
    loaded = load_config(find_config(start or Path.cwd(), config))
    project = loaded.settings.project
    repo = open_repository(loaded.repo, base_branch=project.base_branch)
    places = ProjectPaths(
        root=repo.root,
        worktrees=Path(os.path.normpath(repo.root / Path(project.worktree_dir).expanduser())),
        tasks_file=repo.root / project.tasks_file,
    )
    return Project(loaded=loaded, repo=repo, places=places)


def prepare_folders(ground: Project) -> None:
    """Idempotent: the folders, and their names kept out of `git status` through .git/info/exclude."""
    places = ground.places
    places.make()
    inside = [f"/{STATE_FOLDER}/"]
    if places.worktrees.is_relative_to(places.root):
        inside.append(f"/{places.worktrees.relative_to(places.root)}/")
    if not places.tasks_file.is_relative_to(places.state):
        file = places.tasks_file.relative_to(places.root)
        inside += [f"/{file}", f"/{file}.edited*"]
    exclude_from_status(ground.repo, inside)


@contextmanager
def lock_project(ground: Project) -> Iterator[Journal]:
    """Hold the repository's one lock and the journal; a second orchestrator is told who has it, and changes nothing."""
    places = ground.places
    prepare_folders(ground)
    try:
        with (
            flock.hold_lock(places.lock, flock.format_lock_note("orchestrator")),
            Journal.open(places.journal) as journal,
        ):
            remove_drafts(places.tasks_file, places.agents_file, places.resolved_config)
            write_atomically(places.resolved_config, format_resolved_json(ground.settings))
            yield journal
    except flock.LockHeld as held:
        pid = held.holder.split(" ")[0] or "unknown"
        raise Refused(
            f"another Blue Flame is at work on {ground.repo.root} (pid {pid}): "
            "watch it with 'blueflame watch', answer it with 'blueflame answer', end it with 'blueflame stop'"
        ) from held


def find_running_pid(ground: Project) -> int | None:
    """The orchestrator at work on this repository, if there is one."""
    held = flock.read_lock_holder(ground.places.lock)
    return int(held.split(" ")[0]) if held and held.split(" ")[0].isdigit() else None


def find_orchestrator(ground: Project, session: Session) -> OrchestratorPresence | None:
    """None when nobody is at work on this repository."""
    heartbeat = _find_session_settings(ground, session).limits.heartbeat_interval
    return read_presence(ground.places, last_event=session.last_at, heartbeat=heartbeat)


def list_running_commands(ground: Project, session: Session) -> tuple[RunningCommand, ...]:
    """Checks and hooks that run now."""
    engine = LocalEngine(ground.places.state)
    return () if session.ended else asyncio.run(find_running_commands(engine, session.id, session.attempts))


def probe_agents(ground: Project, session: Session) -> Mapping[str, HealthReport]:
    """How the agents of a session are, seen from any terminal: nobody's word is taken for it."""
    records = [session.attempts[name] for name in session.live]
    rounds = HealthMonitor(
        LocalEngine(ground.places.state), build_readers(ground, session), _find_session_settings(ground, session).limits
    )
    return asyncio.run(rounds.visit(records, SystemClock().now()))


def build_readers(ground: Project, session: Session) -> Mapping[str, Runtime]:
    """What reads the output of a session's agents, whatever they were started with."""
    used = {record.attempt.runtime for record in session.attempts.values()}
    names = sorted(used | set(session.limits.role_runtimes.values()))
    kinds = {name: find_runtime_kind(_find_session_settings(ground, session), name) for name in names}
    return {name: RUNTIMES[kind]({}, ground.loaded.path.parent) for name, kind in kinds.items() if kind in RUNTIMES}


def find_attempt_folder(ground: Project, attempt: str) -> Path:
    return LocalEngine(ground.places.state).directory(attempt)


def build_follower(ground: Project, session: Session) -> ActivityTracker:
    """Tells what the session's agents do now, from any terminal."""
    directory = LocalEngine(ground.places.state).directory
    return ActivityTracker(build_readers(ground, session), directory, ground.places.audit)


@contextmanager
def open_journal(ground: Project) -> Iterator[Journal]:
    if not ground.places.journal.exists():
        raise UsageError(f"nothing has been run in {ground.repo.root} yet: start with 'blueflame run --task \"...\"'")
    with Journal.read_only(ground.places.journal) as journal:
        yield journal


def find_unfinished(journal: Journal) -> SessionInfo | None:
    """The newest session that has not ended."""
    return next((info for info in journal.sessions() if info.ended is None), None)


def find_session(journal: Journal, wanted: str | None) -> str:
    """The session of that id (or its beginning), else the newest."""
    sessions = journal.sessions()
    if not sessions:
        raise UsageError("there is no session yet: start one with 'blueflame run --task \"...\"'")
    if wanted is None:
        return sessions[0].id
    found = [info.id for info in sessions if info.id == wanted] or [
        info.id for info in sessions if info.id.startswith(wanted)
    ]
    if len(found) != 1:
        known = ", ".join(info.id for info in sessions[:5])
        raise UsageError(f"{'no' if not found else 'more than one'} session is called {wanted!r}; the newest: {known}")
    return found[0]


def load_session(journal: Journal, session: str) -> Session:
    return replay(journal.events(session))


def open_session(
    ground: Project,
    journal: Journal,
    *,
    request: str,
    workflow: str | None = None,
    tasks: Sequence[Task] | None = None,
    allow_dirty: bool = False,
    scripted: bool = False,
    interactive: bool = False,
) -> Session:
    """Open a session; with `tasks` the plan is the person's own and only needs approval. `scripted`: roles that name
    no runtime play a script. `interactive`: a person is there to talk with the planner."""
    flow = build_workflow(ground.settings, workflow)
    check_repository(ground.repo, ground.places, ground.settings, allow_dirty=allow_dirty, config=ground.loaded.path)
    now = SystemClock().now()
    name = build_session_id(now, {info.id for info in journal.sessions()})
    opened = SessionOpened(
        session=name,
        request=request,
        project=ground.settings.project.name,
        base_branch=ground.repo.base_branch,
        base_sha=ground.repo.base_sha,
        workflow=flow,
        limits=build_limits(ground, flow.name, scripted=scripted, interactive=interactive),
        config_digest=ground.loaded.digest,
    )
    save_settings(ground.places, name, ground.settings)
    session = replay([JournalEntry(1, now, opened)])
    own = [build_proposal(session, tuple(tasks), "file", 1)] if tasks is not None else []
    # in one piece: a session that lost its plan to a crash would ask a planner for another one
    return replay(journal.append(name, 0, [opened, *own], now))


def build_limits(ground: Project, workflow: str, *, scripted: bool = False, interactive: bool = False) -> Limits:
    """Of a new session, with what earlier ones have taught about the cost of attempts."""
    limits = build_session_limits(ground.settings, workflow, scripted=scripted, interactive=interactive)
    with suppress(MemoryFailed):  # then nothing is learned, and that is what is shown
        known = build_memory(ground.settings, ground.places, os.environ).list_records()
        return replace(limits, figures=learn_figures(known))
    return limits


def open_memory(ground: Project) -> BuiltInMemory:
    """The first copy of what is remembered here, whatever mirrors it has."""
    return build_builtin(ground.settings, ground.places)


def find_memory_problem(ground: Project) -> str:
    """Why sessions are not remembered as the configuration wants it; "" when they are."""
    return describe_memory_problem(ground.settings, ground.places, os.environ)


def abandon_session(ground: Project, journal: Journal, session: str) -> None:
    """A person chose to start afresh: its agents are ended, what they committed is collected, and it is closed."""
    found = load_session(journal, session)
    reason = "a fresh session was started instead"
    asyncio.run(execute_session(build_context(ground, found), journal, found, answerer=NoAnswerer(), stop=reason))
    _append_events(journal, found, [SessionEnded(outcome="abandoned", reason=reason)], SystemClock().now())


class NoAnswerer:
    """Has no answer; for sessions that are only put down, since those ask nothing."""

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:  # noqa: ARG002 (nobody reads it)
        raise NoAnswer(f"nobody is there to answer {gate.id}")


def _append_events(journal: Journal, session: Session, events: Sequence[Event], now: float) -> None:
    for recorded in journal.append(session.id, session.seq, events, now):
        apply_event(session, recorded)


def build_context(
    ground: Project, session: Session, *, script: Path | None = None, cassette: Cassette = NO_CASSETTE
) -> SessionContext:
    """Everything a session has at hand, from the configuration it was opened with."""
    settings = _find_session_settings(ground, session)
    return SessionContext(
        settings=settings,
        repo=ground.repo,
        places=ground.places,
        engine=LocalEngine(ground.places.state),
        runtimes=build_runtime_set(ground, settings=settings, script=script).runtimes(
            session.limits.role_runtimes.values()
        ),
        clock=SystemClock(),
        environ=dict(os.environ),
        read_config=lambda: load_config(ground.loaded.path),
        make_runtimes=lambda changed: build_runtime_set(
            ground, settings=changed, script=script, replay=cassette.replay
        ).usable(session.workflow),
        tools=find_toolchains(os.environ, repo_root=ground.repo.root, home=Path.home(), ours=True),
        cassette=cassette,
        memory=build_memory(settings, ground.places, os.environ),
    )


def _find_session_settings(ground: Project, session: Session) -> Settings:
    if compute_digest(ground.settings) == session.config_digest:
        return ground.settings
    return load_settings(ground.places, session.id, session.config_digest) or ground.settings


def check_runtimes(ground: Project, flow: Workflow, *, script: Path | None = None, replay: Path | None = None) -> None:
    """Refuse what no agent could be started with, also when a session is taken up again."""
    raise_refusal(ground.repo, build_runtime_set(ground, script=script, replay=replay).reasons(flow))


def check_prerequisites(
    ground: Project,
    flow: Workflow,
    *,
    script: Path | None = None,
    replay: Path | None = None,
    allow_dirty: bool = False,
) -> None:
    """Refuse before a session exists what would be refused after it was opened: with every reason at once."""
    unfit = find_blockers(
        ground.repo, ground.places, ground.settings, allow_dirty=allow_dirty, config=ground.loaded.path
    )
    raise_refusal(ground.repo, (*unfit, *build_runtime_set(ground, script=script, replay=replay).reasons(flow)))


def list_warnings(ground: Project) -> tuple[str, ...]:
    """What a person should know before a session, though it is no reason to refuse it."""
    forgetful, planner = find_memory_problem(ground), ground.settings.roles[PLANNER].runtime
    return (
        *find_memory_warnings(ground.places, ground.settings),
        *([forgetful] if forgetful else []),
        *find_ignored_settings(ground.settings, {PLANNER: planner} if planner else {}),
    )


def build_runtime_set(
    ground: Project, *, settings: Settings | None = None, script: Path | None = None, replay: Path | None = None
) -> RuntimeSet:
    return RuntimeSet(
        settings=settings or ground.settings,
        config=ground.loaded.path,
        repo=ground.repo.root,
        script=script,
        replay=replay,
    )


async def execute_session(
    flame: SessionContext,
    journal: Journal,
    session: Session,
    *,
    answerer: GateAnswerer,
    onlookers: Sequence[Observer] = (),
    warn: Callable[[str], None] = lambda _text: None,
    until: Callable[[Session], bool] = lambda _session: False,
    stop: str = "",
) -> Session:
    """Carry the session on until it ends or is stopped in good order; with `stop` (why) that is the first thing."""
    started = OrchestratorStarted(pid=os.getpid(), host=socket.gethostname(), version=__version__)
    rounds = HealthMonitor(flame.engine, flame.runtimes, flame.settings.limits)
    async with (
        run_notifications(flame.settings.notifications, flame.repo.root, flame.environ, warn) as notifier,
        run_exporter(flame.places, warn, rounds) as exporter,
        run_memory_writer(flame, journal, session, warn) as keeper,
    ):
        watching: tuple[Observer, ...] = (exporter, keeper, notifier, *onlookers)
        conductor = SessionLoop(flame, journal, session, answerer=answerer, onlookers=watching, until=until)
        if stop:
            conductor.stop(stop)
        with _handle_signals(conductor, warn):
            await conductor.conduct(started)
    return session


@contextmanager
def _handle_signals(conductor: SessionLoop, warn: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C stops in good order, the second at once; a closed terminal leaves the agents at work."""
    loop = asyncio.get_running_loop()
    asked = 0

    def stop(name: str) -> None:
        nonlocal asked
        asked += 1
        warn("stopping: agents are asked to end (once more to end them at once)" if asked == 1 else "stopping at once")
        conductor.stop(f"stopped by {name}", now=asked > 1)

    def leave() -> None:
        conductor.stop("the terminal was closed", leave_agents=True)

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


def send_message(ground: Project, session: str, kind: str, body: Mapping[str, object]) -> int:
    """Put a letter into the running orchestrator's inbox and wake it; with none running it waits there."""
    with Journal.open(ground.places.journal) as journal:
        letter = journal.post(session, kind, dict(body), SystemClock().now())
    send_wakeup(ground.places.signals, "inbox")
    return letter
