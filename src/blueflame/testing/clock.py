"""A clock that the test advances."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class FakeClock:
    """Time passes only by `advance`; sleepers wake in the order of their deadlines."""

    def __init__(self, now: float = 1_770_388_222.0) -> None:
        self._start = self._now = now
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now - self._start

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Let time pass and wake the sleepers that are due; they run when the caller next awaits."""
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():  # done already: its sleeper was cancelled
                woken.set_result(None)

    def set_back(self, seconds: float) -> None:
        """Set the time of day back, as a person or a time server does: no time passes."""
        self._start -= seconds
        self._now -= seconds
        self._sleepers = [(deadline - seconds, order, woken) for deadline, order, woken in self._sleepers]

    @property
    def next_deadline(self) -> float | None:
        """When the next sleeper is due: what a simulation advances to."""
        live = [deadline for deadline, _, woken in self._sleepers if not woken.done()]
        return min(live, default=None)
