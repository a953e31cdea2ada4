"""What sources and faces get of the house: they hand in arrivals, and see gates and events.

A face (a chat, notifications) is a task that waits for `changed`, reads the events after the last one that it showed,
compares `gates` with those that it drew, and hands in answers as arrivals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from blueflame.journal.house import HouseJournal
from blueflame.model.house.arrival import Arrival
from blueflame.model.house.event import HOUSE, OpenGate, SourceWarned
from blueflame.system.clock import SystemClock


class HouseFace(Protocol):
    """Shows people what happens and hands in what they answer. It is started again when it fails."""

    @property
    def name(self) -> str: ...

    async def run(self, desk: HouseDesk) -> None:
        """Work until cancelled."""


class HouseDesk:
    def __init__(self, journal: HouseJournal, wake: Callable[[], None]) -> None:
        self.journal = journal
        self.gates: tuple[OpenGate, ...] = ()  # that are open, of the house and of all sessions
        self._wake = wake
        self._changed = asyncio.Event()
        self._warned: dict[str, set[str]] = {}

    # --- intake ---------------------------------------------------------------------------------------------------

    def read_cursor(self, source: str) -> str:
        return self.journal.read_cursor(source)

    def receive(
        self,
        source: str,
        arrivals: Sequence[Arrival],
        *,
        cursor: str | None = None,
        notes: Mapping[str, str | None] | None = None,
    ) -> None:
        """`notes`: what a face has to remember, as with `write_notes`, in the same transaction."""
        self.journal.receive(source, arrivals, cursor=cursor, notes=notes)
        if arrivals:
            self._warned.pop(source, None)  # it works again
            self._wake()

    def is_open(self, source: str, key: str) -> bool:
        return self.journal.is_open(source, key)

    def warn(self, source: str, text: str) -> None:
        if text not in self._warned.setdefault(source, set()):
            self._warned[source].add(text)
            self.journal.append([(HOUSE, SourceWarned(source=source, text=text))], SystemClock().now())
            self.announce()

    # --- what faces wait for --------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Wake the faces: an event was recorded, or a gate was opened or closed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        await self._changed.wait()
