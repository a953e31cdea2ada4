"""Quiet hours: when people are left alone, and how much time passes outside of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from typing import NamedTuple
from zoneinfo import ZoneInfo

from blueflame.model.settings.chat import DAYS, QuietHours

MAX_DAYS = 400  # ahead: without a gap until then it is quiet for ever


class QuietPeriod(NamedTuple):
    begin: float
    end: float


def find_quiet_end(hours: Sequence[QuietHours], now: float) -> float | None:
    """Return when the quiet hours of this moment end; None if people may be disturbed."""
    first = next(_join_periods(hours, now), None)
    return first.end if first is not None and first.begin <= now else None


def add_waking_time(hours: Sequence[QuietHours], start: float, seconds: float) -> float:
    """Return when so much time has passed since `start`, quiet hours not counted; never a moment within them."""
    at, left = start, seconds
    for quiet in _join_periods(hours, start):
        awake = max(quiet.begin - at, 0.0)
        if left < awake:
            return at + left
        left, at = left - awake, quiet.end
    return at + left


def _join_periods(hours: Sequence[QuietHours], since: float) -> Iterator[QuietPeriod]:
    """Yield what ends after `since`, in order; periods that touch are one."""
    joined: QuietPeriod | None = None
    for period in heapq.merge(*(_list_periods(each, since) for each in hours)):
        if joined is not None and period.begin <= joined.end:
            joined = QuietPeriod(joined.begin, max(joined.end, period.end))
            continue
        if joined is not None:
            yield joined
        joined = period
    if joined is not None:
        yield joined


def _list_periods(hours: QuietHours, since: float) -> Iterator[QuietPeriod]:
    zone = ZoneInfo(hours.timezone)
    first = datetime.fromtimestamp(since, zone).date() - timedelta(days=1)
    begin, end = time_of_day.fromisoformat(hours.begin), time_of_day.fromisoformat(hours.end)
    for n in range(MAX_DAYS):
        day = first + timedelta(days=n)
        if DAYS[day.weekday()] in hours.days:
            last = day if end > begin else day + timedelta(days=1)
            # where a time comes twice (clocks are set back), they begin at the first and end at the second
            period = QuietPeriod(_list_moments(day, begin, zone)[0], max(_list_moments(last, end, zone)))
            if period.end > since:
                yield period


def _list_moments(day: date, at: time_of_day, zone: ZoneInfo) -> tuple[float, float]:
    """Return the moments of a time that comes twice; of one that is left out, first the one that is an hour later."""
    first = datetime.combine(day, at, zone)
    return first.timestamp(), first.replace(fold=1).timestamp()
