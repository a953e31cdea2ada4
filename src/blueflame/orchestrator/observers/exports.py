"""Keep the exported files in step with the journal, beside the loop.

Changes that come while a file is being written are written together afterwards, so a large plan never holds the session
up. A failure to write (a full disk) is reported once and tried again with the next change; the journal has everything.
The list of agents is also rewritten when one of them changes its state, and at every heartbeat: its age is the
orchestrator's own sign of life.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from blueflame.documents.exports import (
    ENDED_AGENT,
    AgentRow,
    ObservedAgent,
    append_activity,
    build_agent_row,
    export_agents,
    export_tasks,
)
from blueflame.model.attempt import AttemptRecord
from blueflame.model.errors import WorldError
from blueflame.model.event import JournalEntry
from blueflame.model.health import HealthReport
from blueflame.model.task import TaskRecord
from blueflame.orchestrator.engine.health import HealthMonitor
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from blueflame.system.layout import ProjectPaths
from blueflame.text.event_lines import format_log_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSnapshot:
    """The session at one moment, as it goes into the files."""

    session: str
    cycle: int
    at: float
    tasks: tuple[TaskRecord, ...] | None  # none when they are as they were
    agents: tuple[AgentRow, ...]
    lines: tuple[str, ...]


class Exporter:
    def __init__(self, places: ProjectPaths, warn: Callable[[str], None], rounds: HealthMonitor) -> None:
        self._places = places
        self._warn = warn
        self._rounds = rounds
        self._clock = SystemClock()
        self._lines: list[str] = []
        self._session: Session | None = None
        self._begun, self._changed, self._leaving = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._recorded = False  # of something that the journal has; else only the agents are looked at again
        self._warned = False

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
            picture = await self._picture(session, lines, changed=changed)
            await asyncio.to_thread(self._write, picture)
            self._warned = False
        except WorldError as error:
            self._lines, self._recorded = lines + self._lines, True
            if not self._warned:
                self._warn(f"could not write the exports (the journal is safe, the session goes on): {error}")
            self._warned = True

    async def _picture(self, session: Session, lines: Sequence[str], *, changed: bool) -> ExportSnapshot:
        tasks, attempts, cycle = tuple(session.tasks.values()), tuple(session.attempts.values()), session.cycle
        now = self._clock.now()
        checkups = await self._rounds.probe([session.attempts[name] for name in session.live], now)
        rows = tuple(_build_row(record, checkups) for record in attempts)
        return ExportSnapshot(
            session=session.id,
            cycle=cycle,
            at=now,
            tasks=tasks if changed else None,
            agents=rows,
            lines=tuple(lines),
        )

    def _write(self, picture: ExportSnapshot) -> None:
        if picture.tasks is not None:
            tasks = sorted(picture.tasks, key=lambda record: record.task.id)
            aside = export_tasks(self._places.tasks_file, picture.session, picture.cycle, tasks)
            if aside is not None:
                self._warn(
                    f"your changes of {self._places.tasks_file.name} are kept in {aside}: the next cycle takes them"
                )
        export_agents(self._places.agents_file, picture.agents, session=picture.session, now=picture.at)
        append_activity(self._places.activity_log, picture.lines)

    async def keep_up(self) -> None:
        """Until `leave`. Rests as long as it wrote: a huge plan may take half of the time, never all of it."""
        loop = asyncio.get_running_loop()
        while not self._leaving.is_set():
            await _wait_at_most(self._rounds.heartbeat, self._changed)
            began = loop.time()
            await self.flush()
            await _wait_at_most(loop.time() - began, self._leaving)

    def leave(self) -> None:
        """Not by a cancellation: what is half written would be overtaken by what is written last."""
        self._leaving.set()
        self._changed.set()

    async def heed_hints(self) -> None:
        """An agent that was started or has ended; without hints the next heartbeat shows it."""
        await self._begun.wait()
        with suppress(WorldError):
            async for _hint in self._rounds.hints():
                self._changed.set()


async def _wait_at_most(seconds: float, event: asyncio.Event) -> None:
    """Until it happens or the time is over. (`wait_for` may swallow a cancellation.)"""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _build_row(record: AttemptRecord, checkups: Mapping[str, HealthReport]) -> AgentRow:
    found = checkups.get(record.attempt.id)
    if found is None:
        return build_agent_row(record, ENDED_AGENT)
    seen = ObservedAgent(
        state=found.state.value,
        why=found.why,
        pid=found.agent_pid,
        warden_pid=found.warden_pid,
        last_output=found.last_output,
        spend=found.spend,
    )
    return build_agent_row(record, seen)


@asynccontextmanager
async def run_exporter(
    places: ProjectPaths, warn: Callable[[str], None], rounds: HealthMonitor
) -> AsyncIterator[Exporter]:
    """Exports are up to date when the block is left, however it is left."""
    exporter = Exporter(places, warn, rounds)
    keeping_up, heeding = asyncio.create_task(exporter.keep_up()), asyncio.create_task(exporter.heed_hints())
    try:
        yield exporter
    finally:
        heeding.cancel()
        exporter.leave()
        await asyncio.gather(heeding, return_exceptions=True)
        await keeping_up
        await exporter.flush()
