"""Choose the engine, runtimes, memory and observers of a session.

A second engine or another observer is a module of its own and a line here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from blueflame.agents.registry import build_runtime
from blueflame.agents.runtime import Runtime
from blueflame.git.filters import list_filter_drivers
from blueflame.journal.journal import Journal
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.mirrored import MirroredMemory
from blueflame.memory.redis_mirror import RedisMirror
from blueflame.memory.registry import (
    build_builtin,
    build_memory,
    build_mirrored,
    build_redis,
    describe_memory_problem,
)
from blueflame.model.activity import HealthReport
from blueflame.model.runtime_support import RUNTIMES
from blueflame.model.settings import Settings
from blueflame.orchestrator.baseline import BaselineFile
from blueflame.orchestrator.context import NO_CASSETTE, Cassette, SessionContext
from blueflame.orchestrator.engine.health import HealthMonitor
from blueflame.orchestrator.engine.interface import AttemptEngine
from blueflame.orchestrator.engine.local import LocalEngine
from blueflame.orchestrator.engine.presence import RunningCommand, find_running_commands
from blueflame.orchestrator.loop import Observer
from blueflame.orchestrator.observers.exports import run_exporter
from blueflame.orchestrator.observers.memory import run_memory_writer
from blueflame.orchestrator.observers.notifications import run_notifications
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.runtimes import RuntimeSet
from blueflame.orchestrator.session_settings import find_settings
from blueflame.orchestrator.trust import read_trusted_config, require_trust
from blueflame.sandbox.toolchains import find_toolchains
from blueflame.session.from_settings import find_runtime_kind
from blueflame.session.gates.assignments import list_known_runtimes
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from blueflame.system.threads import share_result
from blueflame.telemetry.activity import ActivityTracker


def build_context(
    project: Project, session: Session, *, script: Path | None = None, cassette: Cassette = NO_CASSETTE
) -> SessionContext:
    """Build what a session works with, from the configuration it was opened with."""
    project = project.override(session.overrides)
    settings = find_settings(project, session)
    require_trust(project, settings)
    names = list_known_runtimes(session.limits)

    def make_runtimes(changed: Settings) -> Mapping[str, Runtime]:
        runtimes = build_runtime_set(project, settings=changed, script=script, replay=cassette.replay)
        return runtimes.build_usable(session.workflow)

    return SessionContext(
        settings=settings,
        repo=project.repo,
        paths=project.paths,
        engine=build_engine(project),
        runtimes=build_runtime_set(project, settings=settings, script=script).build_runtimes(names),
        clock=SystemClock(),
        environ=dict(os.environ),
        read_config=partial(read_trusted_config, project),
        make_runtimes=make_runtimes,
        find_tools=share_result(
            partial(find_toolchains, os.environ, repo_root=project.repo.root, home=Path.home(), ours=True)
        ),
        baseline=BaselineFile(project.paths.baseline),
        filters=list_filter_drivers(project.repo.root) if session.filters is None else session.filters,
        scripted=script is not None,
        cassette=cassette,
        memory=build_memory(settings, project.paths, os.environ),
    )


def build_command_context(project: Project) -> SessionContext:
    """Build what commands need that belong to no session: no agent can be started with it."""
    require_trust(project)
    return SessionContext(
        settings=project.settings,
        repo=project.repo,
        paths=project.paths,
        engine=build_engine(project),
        runtimes={},
        clock=SystemClock(),
        environ=dict(os.environ),
        read_config=lambda: project.loaded,
        make_runtimes=lambda _settings: {},
        find_tools=share_result(partial(find_toolchains, os.environ, repo_root=project.repo.root, home=Path.home())),
        baseline=BaselineFile(project.paths.baseline),
    )


@asynccontextmanager
async def run_observers(
    context: SessionContext, journal: Journal, session: Session, warn: Callable[[str], None]
) -> AsyncIterator[tuple[Observer, ...]]:
    """Run the observers of every session: exports, memory, notifications."""
    monitor = HealthMonitor(context.engine, context.runtimes, context.settings.limits)
    async with (
        run_notifications(context.settings.notifications, context.repo.root, context.environ, warn) as notifications,
        run_exporter(context.paths, warn, monitor, journal.read_events(session.id)) as exporter,
        run_memory_writer(context, journal, session, warn, exporter.see) as memory,
    ):
        yield exporter, memory, notifications


def build_engine(project: Project) -> AttemptEngine:
    return LocalEngine(project.state.state)


def build_runtime_set(
    project: Project, *, settings: Settings | None = None, script: Path | None = None, replay: Path | None = None
) -> RuntimeSet:
    require_trust(project, settings)
    return RuntimeSet(
        settings=settings or project.settings,
        config=project.config,
        repo=project.repo.root,
        script=script,
        replay=replay,
    )


def build_readers(project: Project, session: Session) -> Mapping[str, Runtime]:
    """Build runtimes that can read the output of all the session's agents."""
    used = {record.attempt.runtime for record in session.attempts.values()}
    names = sorted(used | set(list_known_runtimes(session.limits)))
    settings = find_settings(project, session)
    kinds = {name: find_runtime_kind(settings, name) for name in names}
    root = project.config.parent
    return {name: build_runtime(kind, {}, root) for name, kind in kinds.items() if kind in RUNTIMES}


def build_follower(project: Project, session: Session) -> ActivityTracker:
    """Build what follows the session's agents, for any terminal."""
    return ActivityTracker(build_readers(project, session), build_engine(project).mirror, project.state.audit)


def probe_agents(project: Project, session: Session) -> Mapping[str, HealthReport]:
    """Return the health of the session's running agents, for any terminal."""
    records = [session.attempts[name] for name in session.live]
    limits = find_settings(project, session).limits
    monitor = HealthMonitor(build_engine(project), build_readers(project, session), limits)
    return asyncio.run(monitor.probe(records, SystemClock().now()))


def list_running_commands(project: Project, session: Session) -> tuple[RunningCommand, ...]:
    """List the checks and hooks that run now."""
    return asyncio.run(find_running_commands(build_engine(project), session.id, session.attempts))


def find_attempt_folder(project: Project, attempt: str) -> Path:
    return build_engine(project).mirror(attempt)


def open_memory(project: Project) -> BuiltInMemory:
    """Open the built-in memory, also where Beads mirrors it."""
    return build_builtin(project.settings, project.paths)


def open_mirrored_memory(project: Project) -> MirroredMemory:
    """Open the built-in memory with its mirrors."""
    require_trust(project)
    return build_mirrored(project.settings, project.paths, os.environ)


def open_mirror(project: Project, address: str) -> RedisMirror:
    """Open a mirror that a person named."""
    return build_redis(address, "the server", project.settings, project.paths, os.environ)


def find_memory_problem(project: Project, *, servers: bool = False) -> str:
    """Why the configured memory cannot be used; "" when it can. `servers`: try them, too."""
    require_trust(project)
    return describe_memory_problem(project.settings, project.paths, os.environ, servers=servers)
