"""The time. Decisions get it as an argument; only this module asks the machine."""

from __future__ import annotations

import time
from datetime import datetime
from typing import NamedTuple


class SystemClock:
    def now(self) -> float:
        """Seconds since the epoch, for records and deadlines that outlive the process."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step back, for durations within the process."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio  # only processes that have a loop need it

        await asyncio.sleep(seconds)


class LocalDay(NamedTuple):
    date: str
    began_at: float


def find_local_day(now: float) -> LocalDay:
    """Return the day of a moment in the machine's time zone."""
    here = datetime.fromtimestamp(now).astimezone()
    midnight = datetime(here.year, here.month, here.day).astimezone()  # its own offset: clocks may change at night
    return LocalDay(here.date().isoformat(), midnight.timestamp())
