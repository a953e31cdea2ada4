"""Keeps the files that people and other programs look at in step with the journal, beside the loop.

Changes that come while a file is being written are written together afterwards, so a large plan never holds the session
up. A failure to write (a full disk) is told once and tried again with the next change; the journal has everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from blueflame.model.attempt import AttemptRecord
from blueflame.model.errors import WorldError
from blueflame.model.event import Recorded
from blueflame.model.task import TaskRecord
from blueflame.rules.activity import log_lines
from blueflame.rules.session import Session
from blueflame.tools.exports import AgentRow, agent_row, append_activity, export_agents, export_tasks
from blueflame.tools.places import Places


class Exporter:
    def __init__(self, places: Places, warn: Callable[[str], None]) -> None:
        self._places = places
        self._warn = warn
        self._lines: list[str] = []
        self._session: Session | None = None
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._writing = asyncio.Lock()
        self._warned = False

    def see(self, session: Session, recorded: Sequence[Recorded]) -> None:
        self._session = session
        self._lines += log_lines(recorded)
        self._changed.set()

    async def flush(self) -> None:
        """One at a time: an earlier state must never be written over a later one."""
        async with self._writing:
            await self._flush()

    async def _flush(self) -> None:
        session, lines = self._session, self._lines
        self._lines = []
        self._changed.clear()
        if session is None:
            return
        tasks, attempts = tuple(session.tasks.values()), tuple(session.attempts.values())
        try:
            await asyncio.to_thread(self._write, session.id, session.cycle, tasks, attempts, lines)
            self._warned = False
        except WorldError as error:
            self._lines = lines + self._lines
            if not self._warned:
                self._warn(f"could not write the exports (the journal is safe, the session goes on): {error}")
            self._warned = True

    def _write(
        self,
        session: str,
        cycle: int,
        tasks: Sequence[TaskRecord],
        attempts: Sequence[AttemptRecord],
        lines: Sequence[str],
    ) -> None:
        export_tasks(self._places.tasks_file, session, cycle, sorted(tasks, key=lambda record: record.task.id))
        export_agents(self._places.agents_file, [_row(record) for record in attempts])
        append_activity(self._places.activity_log, lines)

    async def keep_up(self) -> None:
        """Rests as long as it wrote: the files of a huge plan may take half of the time, never all of it."""
        loop = asyncio.get_running_loop()
        while not self._closing.is_set():
            await self._changed.wait()
            began = loop.time()
            await self.flush()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), loop.time() - began)

    def close(self) -> None:
        """What is being written is written to its end; nothing is begun after it."""
        self._closing.set()
        self._changed.set()


def _row(record: AttemptRecord) -> AgentRow:
    """A warden leads a process group of its own, so its pid names both."""
    pid = record.warden_pid or None
    return agent_row(record, pid=pid, pgid=pid)


@asynccontextmanager
async def exporting(places: Places, warn: Callable[[str], None]) -> AsyncIterator[Exporter]:
    """Exports are up to date when the block is left, however it is left."""
    exporter = Exporter(places, warn)
    keeping_up = asyncio.create_task(exporter.keep_up())
    try:
        yield exporter
    finally:
        exporter.close()
        await keeping_up
        await exporter.flush()
