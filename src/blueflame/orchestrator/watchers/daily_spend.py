"""What was spent today, by this session and by all others of the repository."""

from __future__ import annotations

from dataclasses import replace

from blueflame.journal.journal import Journal
from blueflame.model.limits import Capacity
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.session.state import Session
from blueflame.system.clock import LocalDay, find_local_day


class DailySpend:
    """Other sessions stand still while this one is carried on, so their part is read once a day."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._read_on = ""
        self._others = NO_SPEND

    def entered(self, capacity: Capacity, session: Session, now: float) -> Capacity:
        """The capacity with the day and what it has cost; without a budget for days nobody asks."""
        if session.limits.day_budget.unlimited:
            return capacity
        day = find_local_day(now)
        spend = self._of_others(day, session.id) + session.sum_spend_since(day.began_at)
        return replace(capacity, day=day.date, day_spend=spend)

    def _of_others(self, day: LocalDay, session: str) -> Spend:
        if self._read_on != day.date:
            self._others = self._journal.spent_since(day.began_at, without=session)
            self._read_on = day.date
        return self._others
