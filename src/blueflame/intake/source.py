"""What a source of requests is, and what the house gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from blueflame.model.house.arrival import Arrival


class Intake(Protocol):
    """Where a source puts what it received. Each call is one transaction: all of it is kept, or nothing."""

    def read_cursor(self, source: str) -> str:
        """Return how far the source was read, as it was last written; "" at first. Its form is the source's own."""

    def receive(self, source: str, arrivals: Sequence[Arrival], *, cursor: str | None = None) -> None:
        """Keep the arrivals and the new cursor durably. What was received before, by source and key, is dropped."""

    def warn(self, source: str, text: str) -> None:
        """Report that something is wrong with the source: once for each text until `receive` succeeds again."""


class Source(Protocol):
    """A place that requests come from. It ends with its task, and is started again by the house when it fails."""

    @property
    def name(self) -> str: ...

    async def run(self, intake: Intake) -> None:
        """Receive until cancelled."""
