"""Write the exported files (tasks, agents, activity log) beside the loop.

Changes that arrive during a write are written together afterwards, so a large plan never blocks the session. A failed
write (a full disk) is reported once and repeated with the next change; the journal has everything. The list of agents
is also rewritten when an agent changes its state, and at every heartbeat: its age shows whether the orchestrator
is alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from blueflame.documents.exports import (
    ENDED,
    append_activity,
    build_agent_row,
    export_agents,
    find_unwritten_lines,
)
from blueflame.documents.tasks_file import export_tasks
from blueflame.model.errors import WorldError
from blueflame.model.event import JournalEntry
from blueflame.model.task import TaskRecord
from blueflame.orchestrator.engine.health import HealthMonitor
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from blueflame.system.layout import ProjectPaths
from blueflame.system.wakeups import WATCH_LATER_SECONDS
from blueflame.text.event_lines import format_log_lines

PAUSE_PER_WRITE = 9


class Exporter:
    def __init__(self, places: ProjectPaths, warn: Callable[[str], None], monitor: HealthMonitor) -> None:
        self._places = places
        self._warn = warn
        self._monitor = monitor
        self._clock = SystemClock()
        self._lines: list[str] = []
        self._session: Session | None = None
        self._begun, self._changed, self._leaving = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._recorded = False  # there are new events; else only the agents are exported again
        self._warned = False

    async def catch_up(self, recorded: Sequence[JournalEntry]) -> None:
        """Take from what was recorded before us the lines that nothing has written."""
        file = self._places.activity_log
        self._lines += await asyncio.to_thread(lambda: find_unwritten_lines(file, format_log_lines(recorded)))

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        self._session = session
        self._lines += format_log_lines(recorded)
        self._recorded = True
        self._begun.set()
        self._changed.set()

    async def flush(self) -> None:
        session, lines, changed = self._session, self._lines, self._recorded
        self._lines, self._recorded = [], False
        self._changed.clear()
        if session is None:
            return
        try:
            await self._export(session, lines, tasks_changed=changed)
            self._warned = False
        except WorldError as error:
            self._lines, self._recorded = lines + self._lines, True
            if not self._warned:
                self._warn(f"could not write the exports (the journal is safe, the session continues): {error}")
            self._warned = True

    async def _export(self, session: Session, lines: Sequence[str], *, tasks_changed: bool) -> None:
        """Read the session here, then write in a thread: the loop changes the session meanwhile."""
        tasks, attempts, cycle = tuple(session.tasks.values()), tuple(session.attempts.values()), session.cycle
        now = self._clock.now()
        reports = await self._monitor.probe([session.attempts[name] for name in session.live], now)
        rows = tuple(build_agent_row(record, reports.get(record.attempt.id, ENDED)) for record in attempts)

        def write() -> None:
            if not self._places.root.is_dir():  # made again, it would be in the way of the one that is moved back
                raise WorldError(f"{self._places.root} is gone: move it back")
            if tasks_changed:
                self._write_tasks(session.id, cycle, tasks)
            export_agents(self._places.agents_file, rows, session=session.id, now=now)
            append_activity(self._places.activity_log, lines)

        await asyncio.to_thread(write)

    def _write_tasks(self, session: str, cycle: int, tasks: Sequence[TaskRecord]) -> None:
        file = self._places.tasks_file
        aside = export_tasks(file, session, cycle, sorted(tasks, key=lambda record: record.task.id))
        if aside is not None:
            self._warn(f"your changes of {file.name} are kept in {aside}: the next cycle takes them")

    async def keep_up(self) -> None:
        """Write until `leave`. The pause grows with the write: the files of a huge plan take a tenth of the time."""
        loop = asyncio.get_running_loop()
        while not self._leaving.is_set():
            await _wait_at_most(self._monitor.heartbeat, self._changed)
            began = loop.time()
            await self.flush()
            await _wait_at_most(PAUSE_PER_WRITE * (loop.time() - began), self._leaving)

    def leave(self) -> None:
        """End `keep_up` after its current write; a cancellation could let an old write come last."""
        self._leaving.set()
        self._changed.set()

    async def heed_hints(self) -> None:
        """Export when an agent starts or ends; without hints the next heartbeat does."""
        await self._begun.wait()
        await asyncio.sleep(WATCH_LATER_SECONDS)
        with suppress(WorldError):
            async for _hint in self._monitor.iterate_hints():
                self._changed.set()


async def _wait_at_most(seconds: float, event: asyncio.Event) -> None:
    """Wait for the event or the timeout. (`wait_for` may swallow a cancellation.)"""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


@asynccontextmanager
async def run_exporter(
    places: ProjectPaths, warn: Callable[[str], None], monitor: HealthMonitor, earlier: Sequence[JournalEntry] = ()
) -> AsyncIterator[Exporter]:
    """Exports are up to date when the block ends, also by an error."""
    exporter = Exporter(places, warn, monitor)
    await exporter.catch_up(earlier)
    keeping_up, heeding = asyncio.create_task(exporter.keep_up()), asyncio.create_task(exporter.heed_hints())
    try:
        yield exporter
    finally:
        heeding.cancel()
        exporter.leave()
        await asyncio.gather(heeding, return_exceptions=True)
        await keeping_up
        await exporter.flush()
