"""The time. Decisions get it passed in; only this asks the machine for it."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    def now(self) -> float:
        """Seconds since the epoch: for records and deadlines that outlive the process."""
        return time.time()

    def monotonic(self) -> float:
        """Never steps back: for durations within the process."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
