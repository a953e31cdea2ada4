"""Run the house until it is stopped: its lock, its sources and faces, signals and the service manager."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

from blueflame import __version__
from blueflame.config.house import LoadedHouse
from blueflame.dispatch.people import find_sender
from blueflame.dispatch.pool import PoolLimits
from blueflame.house.background import build_session_environment
from blueflame.house.core import HouseCore
from blueflame.house.desk import HouseFace
from blueflame.house.loop import HouseLoop
from blueflame.house.processes import list_secret_variables
from blueflame.intake.registry import build_sources
from blueflame.intake.source import ServedRepository, SourceContext
from blueflame.journal.database import Fenced
from blueflame.journal.house import HouseJournal
from blueflame.journal.pool import PoolJournal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError, Refused, WorldError, find_first_error
from blueflame.model.house.event import HOUSE, HouseStarted, HouseStopped
from blueflame.model.settings.house import PoolSettings
from blueflame.system import flock
from blueflame.system.layout import POOL_VARIABLE, HousePaths
from blueflame.system.machine import MB
from blueflame.system.service import find_watchdog_seconds, notify_manager
from blueflame.system.wakeups import watch_wakeups
from blueflame.text.format import format_count

FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS = 1.0, 300.0
MAX_STILL_SECONDS = 30.0  # shorter than the watchdog waits
STATUS_SECONDS = 5.0
MANAGER_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")
MAX_STEP_SECONDS = 60.0  # a step that takes longer hangs: the watchdog restarts the house


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    loaded: LoadedHouse
    paths: HousePaths
    environ: Mapping[str, str]  # with the secrets of sources and the keys of models
    login: str
    stop_sessions: bool = False
    report: Callable[[str], None] = lambda _text: None


@contextmanager
def hold_house(paths: HousePaths) -> Iterator[None]:
    """Hold the lock of the house; a second one is refused and changes nothing."""
    try:
        with flock.hold_lock(paths.lock, flock.format_lock_note("house")):
            yield
    except flock.LockHeld as held:
        pid = held.holder.split(" ")[0] or "unknown"
        raise Refused(f"the house {paths.root} is served already (pid {pid}): see 'blueflame status --house'") from held


@contextmanager
def hold_vanished_lock(paths: HousePaths) -> Iterator[None]:
    """Hold the lock again if its file was deleted: the one that we hold is seen by no other process any more."""
    with nullcontext() if flock.read_lock_holder(paths.lock) is not None else hold_house(paths):
        yield


async def serve_house(options: ServeOptions, build_faces: Callable[[HouseCore], Sequence[HouseFace]]) -> None:
    """Serve until SIGTERM or SIGINT. Sessions go on without the house, unless they are to be stopped.

    What the environment does to the house itself, such as a full disk, ends no house: it starts again from its journal,
    as after a crash, later each time.
    """
    with HouseJournal.open(options.paths.journal) as journal:
        journal.refuse_damage()  # one that cannot be used is for the person who starts the house
    stopped, seconds, known = _watch_signals(), FIRST_RESTART_SECONDS, ""
    while not stopped.done():
        try:
            with hold_vanished_lock(options.paths), HouseJournal.open(options.paths.journal) as journal:
                journal.refuse_damage()
                await _serve(options, journal, build_faces, stopped)
        except (BlueFlameError, OSError, ExceptionGroup) as error:
            cause = find_first_error(error) if isinstance(error, ExceptionGroup) else error
            if stopped.done() or not _is_environment(cause):
                raise cause from error
            if str(cause) != known:
                options.report(f"the house stands still: {cause}. It continues by itself when that is fixed")
                known, seconds = str(cause), FIRST_RESTART_SECONDS
            notify_manager("WATCHDOG=1\nSTATUS=stands still, see its output", options.environ)
            await asyncio.wait({stopped}, timeout=seconds)
            seconds = min(seconds * 2, MAX_STILL_SECONDS)


def _is_environment(error: BaseException) -> bool:
    return isinstance(error, (WorldError, OSError)) and not isinstance(error, Fenced)


async def _serve(
    options: ServeOptions,
    journal: HouseJournal,
    build_faces: Callable[[HouseCore], Sequence[HouseFace]],
    stopped: asyncio.Future[str],
) -> None:
    loop = HouseLoop(lambda wake: build_core(options, journal, wake))
    core = loop.core
    context = build_source_context(core, options)
    sources, faces = build_sources(core.settings.sources, context), build_faces(core)
    with PoolJournal.open(options.paths.journal) as pool:
        pool.write_limits(build_pool_limits(core.settings.pool))
    core.record(HOUSE, HouseStarted(pid=os.getpid(), version=__version__, repositories=tuple(core.repositories)))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop.run())]
        tasks.append(group.create_task(_watch_signals_folder(options.paths, loop)))
        tasks.append(group.create_task(_report_status(loop)))
        tasks += [group.create_task(_keep_running(core, each.name, partial(each.run, core.desk))) for each in sources]
        tasks += [group.create_task(_keep_running(core, each.name, partial(each.run, core.desk))) for each in faces]
        options.report(f"serving {', '.join(core.repositories) or 'no repository'}; Ctrl-C ends it, sessions go on")
        notify_manager("READY=1", options.environ)
        await asyncio.wait({stopped})  # not awaited itself: a source that fails would cancel it
        notify_manager("STOPPING=1", options.environ)
        for task in tasks:
            task.cancel()
    if options.stop_sessions:
        for repository in core.repositories.values():
            if repository.pid is not None and repository.unfinished:
                with repository.note_problem():
                    key = f"house:{repository.pid}"
                    loop.answers.send_stop(repository, repository.unfinished, "the house", key=key)
    core.record(HOUSE, HouseStopped(reason=stopped.result()))


def build_source_context(core: HouseCore, options: ServeOptions) -> SourceContext:
    secrets = set(list_secret_variables(core.settings))
    return SourceContext(
        folder=options.paths.root,
        repositories={
            name: ServedRepository(options.loaded.find_folder(each), options.loaded.find_config(each))
            for name, each in core.settings.repositories.items()
        },
        identify=lambda address: find_sender(core.people, address),
        clock=core.clock,
        environment={name: value for name, value in options.environ.items() if name in secrets},
    )


def build_pool_limits(settings: PoolSettings) -> PoolLimits:
    return PoolLimits(
        agents=settings.agents,
        roles=dict(settings.roles),
        memory_per_agent=settings.min_ram_per_agent_mb * MB,
        day_micro_usd=round(settings.max_day_cost_usd * 1e6),
        max_queue_length=settings.max_queue_length,
        max_adhoc_per_type=settings.max_adhoc_per_type,
        max_total_adhoc=settings.max_total_adhoc,
    )


def build_core(options: ServeOptions, journal: HouseJournal, wake: Callable[[], None]) -> HouseCore:
    secrets = set(list_secret_variables(options.loaded.settings))
    environ = {name: value for name, value in options.environ.items() if name not in secrets}
    environ = {name: value for name, value in environ.items() if name not in MANAGER_VARIABLES}
    session = build_session_environment(environ, {POOL_VARIABLE: str(options.paths.root)})
    return HouseCore(options.loaded, options.paths, journal, environ=session, login=options.login, wake=wake)


def _watch_signals() -> asyncio.Future[str]:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[str] = loop.create_future()

    def stop(name: str) -> None:
        if not stopped.done():
            stopped.set_result(name)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number.name)
    return stopped


async def _watch_signals_folder(paths: HousePaths, loop: HouseLoop) -> None:
    """Commands at a terminal touch a file there."""
    async for _names in watch_wakeups(paths.signals):
        loop.wake()


async def _keep_running(core: HouseCore, name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a source or a face; when it fails, report it and start it again, later each time."""
    seconds = FIRST_RESTART_SECONDS
    while True:
        began = core.clock.monotonic()
        try:
            await run()
            why = "it ended"
        except BlueFlameError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - a source that fails must not end the others
            why = f"{type(error).__name__}: {error}"
        if core.clock.monotonic() - began > MAX_RESTART_SECONDS:
            seconds = FIRST_RESTART_SECONDS
        core.desk.warn(name, f"{why}; it is started again")
        await core.clock.sleep(seconds)
        seconds = min(seconds * 2, MAX_RESTART_SECONDS)


async def _report_status(loop: HouseLoop) -> None:
    """Tell the service manager how it goes, as often as it wants to hear from us."""
    watchdog, before = find_watchdog_seconds(), ""
    while True:
        core = loop.core
        running = sum(each.is_busy for each in core.repositories.values())
        text = f"{format_count(running, 'session')}, {format_count(len(core.desk.gates), 'open gate')}"
        alive = "WATCHDOG=1\n" if watchdog and core.clock.monotonic() - loop.stepped_at < MAX_STEP_SECONDS else ""
        if text != before or alive:
            notify_manager(f"{alive}STATUS={text}")
        before = text
        await core.clock.sleep(watchdog or STATUS_SECONDS)
