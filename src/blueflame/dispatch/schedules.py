"""When a schedule is due: a pure function of its expression, its zone, what was decided before, and the time.

cronsim does as Debian's cron where clocks change: a time that does not exist runs at the next one that does, and a
time that comes twice runs once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.model.settings.sources import CRON_NAMES

ON_TIME_SECONDS = 150.0  # we look at least each minute, and a busy machine is late
MAX_CLOCK_STEP_BACK = 3600.0
MAX_CLOCK_CHANGE = 2 * 3600.0  # the most that a zone's clocks change by
NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    cron: str
    zone: str
    missed: Literal["once", "skip"] = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTime:
    """What is due now. `until`: up to there, that included, no time of the schedule is due any more."""

    at: float | None  # the time that is due, if one is
    until: float
    skipped: float | None = None  # the latest time that was missed and is not made up for


def find_next_time(cron: str, zone: str, after: float) -> float:
    """Return the first time of an expression that is later than `after`; infinity if it never comes."""
    times = _iter_times(cron, zone, after - MAX_CLOCK_CHANGE, reverse=False)
    return next((time for time in times if time > after), NEVER)


def find_due_time(schedule: Schedule, *, until: float, now: float) -> DueTime:
    """Decide about the times later than `until` and not later than now: the last one counts for all of them."""
    if until > now + MAX_CLOCK_STEP_BACK:  # the clock was wrong: do not wait until it is that late again
        until = now
    times = _iter_times(schedule.cron, schedule.zone, now + MAX_CLOCK_CHANGE, reverse=True)
    latest = next((time for time in times if time <= now), -NEVER)
    if latest <= until:
        return DueTime(at=None, until=until)
    if now - latest > ON_TIME_SECONDS and schedule.missed == "skip":
        return DueTime(at=None, until=latest, skipped=latest)
    return DueTime(at=latest, until=latest)


def _iter_times(cron: str, zone: str, start: float, *, reverse: bool) -> Iterator[float]:
    """Within a clock change cronsim starts an hour off, so callers start before it and drop what is too early."""
    try:
        from cronsim import CronSim
    except ImportError:
        raise Refused("cron expressions need cronsim: pip install 'blueflame[schedules]'") from None
    place = UTC if zone == "UTC" else ZoneInfo(zone)
    times = CronSim(CRON_NAMES.get(cron, cron), datetime.fromtimestamp(start, place), reverse)
    return (time.timestamp() for time in times)
