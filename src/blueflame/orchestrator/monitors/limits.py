"""Watch running agents for models that are unavailable and for budgets that are nearly used up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from blueflame.journal.journal import Journal
from blueflame.model.attempt import Attempt
from blueflame.model.errors import WorldError
from blueflame.model.event import AttemptNearsBudget, Event
from blueflame.model.limits import Capacity
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.monitors.rate_limits import POLL_SECONDS, RateLimitWait, build_parked_event, find_waits
from blueflame.session.budget import find_nearest_limit
from blueflame.session.rate_limits import ACCOUNT_KINDS, RATE_LIMIT
from blueflame.session.state import Session
from blueflame.system.clock import LocalDay, find_local_day
from blueflame.telemetry.usage import UsageTail

MIN_WAIT_SECONDS = 3.0  # shorter waits are not reported
RECORD_SECONDS = 3.0  # within this time a reported event is in the session
MIN_SHIFT_SECONDS = 60.0  # the end of a limit must move by this to be reported again


class LimitMonitor:
    """One per orchestrator. What it has reported is not reported again while the event is being recorded."""

    def __init__(self, context: Callable[[], SessionContext], session: Session, emit: Emit) -> None:
        self._context = context
        self._session = session
        self._emit = emit
        self._reported_at: dict[str, float] = {}  # runtime -> when it was last reported as parked
        self._warned: set[str] = set()
        self._meters: dict[str, UsageTail] = {}
        self._day = ""

    async def keep(self) -> None:
        """Run until cancelled."""
        while True:
            clock = self._context().clock
            await clock.sleep(POLL_SECONDS)
            with suppress(WorldError):  # a folder that cannot be read now is read with the next poll
                await self.poll(clock.now())

    async def poll(self, now: float) -> None:
        events: list[Event] = [*self._check_budgets(), *[event async for event in self._check_runtimes(now)]]
        if events or self._is_new_day(now):
            self._emit(events)

    def _is_new_day(self, now: float) -> bool:
        """On a new day, work that waits for the daily budget continues."""
        before, self._day = self._day, find_local_day(now).date
        return before not in ("", self._day)

    async def _check_runtimes(self, now: float) -> AsyncIterator[Event]:
        session = self._session
        runtimes = {attempt.runtime for attempt in session.live.values()} | set(session.limits.role_runtimes.values())
        for runtime in sorted(runtimes):
            found = await find_waits(self._context(), session, runtime, now)
            if found and self._is_news(runtime, found, now):
                self._reported_at[runtime] = now
                yield build_parked_event(runtime, found, self._count_waiting(runtime, found))

    def _count_waiting(self, runtime: str, found: list[RateLimitWait]) -> int:
        """A rate limit of the account stops all agents that use it, at their next call at the latest."""
        if any(wait.kind == RATE_LIMIT for wait in found):
            return sum(attempt.runtime == runtime for attempt in self._session.live.values())
        return len(found)

    def _is_news(self, runtime: str, found: list[RateLimitWait], now: float) -> bool:
        """Whether to report the wait; short ones are not."""
        known = self._session.parked.get(runtime)
        if known is None:
            long = any(max(now, wait.until or now) - wait.since >= MIN_WAIT_SECONDS for wait in found)
            return long and not 0 <= now - self._reported_at.get(runtime, float("-inf")) < RECORD_SECONDS
        if known.kind in ACCOUNT_KINDS:
            return False
        later = [wait.until for wait in found if wait.kind == RATE_LIMIT and wait.until is not None]
        return bool(later) and not known.outages and max(later) > (known.until or 0.0) + MIN_SHIFT_SECONDS

    def _check_budgets(self) -> Iterator[Event]:
        live = self._session.live
        self._meters = {name: meter for name, meter in self._meters.items() if name in live}
        for name, attempt in live.items():
            if name not in self._warned and not self._session.attempts[name].near_budget:
                yield from self._check_budget(attempt)

    def _check_budget(self, attempt: Attempt) -> Iterator[Event]:
        context = self._context()
        meter = self._meters.setdefault(attempt.id, UsageTail(context.engine.mirror(attempt.id)))
        meter.read_new()
        if meter.spend is None:
            return
        limit = find_nearest_limit(attempt, meter.spend, self._session.limits.warn_threshold)
        if limit is not None:
            self._warned.add(attempt.id)
            budget = limit.budget
            yield AttemptNearsBudget(
                attempt=attempt.id,
                used=budget.measure(meter.spend),
                limit=budget.limit,
                unit=budget.unit,
                budget=limit.name,
            )


class DailySpend:
    """What all sessions have spent today. No other session runs meanwhile, so their part is read once a day."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._read_on = ""
        self._others = NO_SPEND

    def add_to_capacity(self, capacity: Capacity, session: Session, now: float) -> Capacity:
        """Return the capacity with today's spend; unchanged without a daily budget."""
        if session.limits.day_budget.unlimited:
            return capacity
        day = find_local_day(now)
        spend = self._read_others(day, session.id) + session.sum_spend_since(day.began_at)
        return replace(capacity, day=day.date, day_spend=spend)

    def _read_others(self, day: LocalDay, session: str) -> Spend:
        if self._read_on != day.date:
            self._others = self._journal.sum_spend_since(day.began_at, without=session)
            self._read_on = day.date
        return self._others
