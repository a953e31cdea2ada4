"""Budgets: before each call, may it go on? No budget is overshot by more than one call, however many go at once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from blueflame.billing.usage import Usage, UsageReader
from blueflame.gateway.model_api.errors import BUDGET_STATUS, CallDenied
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.model_api.usage_log import PricedUsage, PriceList
from blueflame.gateway.options import BudgetLimit

CENT = 10_000
BYTES_PER_TOKEN = 4  # of a request, roughly; only to guess what a call will cost


@dataclass(eq=False)
class OpenCall:
    """A call under way. `reader` knows what it has used so far."""

    body: bytes
    named: str = ""  # the model, where the path tells it
    reader: UsageReader | None = None

    def read_usage(self) -> Usage:
        return self.reader.usage if self.reader is not None else Usage()

    @cached_property
    def content(self) -> dict[str, Any]:
        """Read only when somebody wants to know: a request may be large, and nobody is to wait for that."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def model(self) -> str:
        return self.named or str(self.content.get("model", ""))[:200]


class BudgetReservation:
    def __init__(self, limits: tuple[BudgetLimit, ...], prices: PriceList, teller: StatusReporter) -> None:
        self._limits = limits
        self._prices = prices
        self._teller = teller
        self._used = {"usd": 0, "tokens": 0}
        self._largest: dict[str, int] | None = None
        self._flights: list[OpenCall] = []
        self._changed = asyncio.Event()

    async def wait_to_reserve(self, flight: OpenCall) -> None:
        """When those before it have ended. Raises Denied when a budget is used up."""
        while not self.try_reserve(flight):
            self._changed.clear()
            await self._changed.wait()

    def try_reserve(self, flight: OpenCall) -> bool:
        """It is under way from now on; or not yet. Raises Denied when a budget is used up."""
        self._refuse_if_used_up()
        if not all(self._has_room(limit) for limit in self._limits):
            return False
        self._flights.append(flight)
        return True

    def settle(self, flight: OpenCall, priced: PricedUsage) -> None:
        """It has ended, and used this. Of nothing that was used nothing can be learned."""
        if flight not in self._flights:  # it was never let go
            return
        self._flights.remove(flight)
        spent = _list_amounts(priced)
        for unit, amount in spent.items():
            self._used[unit] += amount
        if priced.tokens:
            largest = self._largest or spent
            self._largest = {unit: max(largest[unit], amount) for unit, amount in spent.items()}
        self._changed.set()

    def _refuse_if_used_up(self) -> None:
        for limit in self._limits:
            used = self._used[limit.unit] + sum(self._measure_spend(flight)[limit.unit] for flight in self._flights)
            if used >= limit.limit:
                words = (
                    f"The budget of this {limit.name} is used up: {_format_amount(limit.unit, used)} of"
                    f" {_format_amount(limit.unit, limit.limit)}."
                    " No further call is answered; commit what you have and stop."
                )
                why = {"budget": limit.name, "unit": limit.unit, "used": used, "limit": limit.limit, "words": words}
                self._teller.report_refused(why)
                raise CallDenied(BUDGET_STATUS, "budget", words)

    def _has_room(self, limit: BudgetLimit) -> bool:
        """With all who are under way, each as large as the largest so far. The very first goes alone."""
        if not self._flights:
            return True
        if self._largest is None:
            return False
        expected = sum(self._estimate_spend(flight, self._largest)[limit.unit] for flight in self._flights)
        return self._used[limit.unit] + expected < limit.limit

    def _measure_spend(self, flight: OpenCall) -> dict[str, int]:
        usage = flight.read_usage()
        return _list_amounts(self._prices.price_usage(usage)) if usage.complete else {"usd": 0, "tokens": 0}

    def _estimate_spend(self, flight: OpenCall, largest: dict[str, int]) -> dict[str, int]:
        usage = flight.read_usage()
        if usage.complete:
            return self._measure_spend(flight)
        asked = Usage(model=flight.model, input=len(flight.body) // BYTES_PER_TOKEN)
        guesses = (
            largest,
            _list_amounts(self._prices.price_usage(usage)),
            _list_amounts(self._prices.price_usage(asked)),
        )
        return {unit: max(guess[unit] for guess in guesses) for unit in largest}


def _list_amounts(priced: PricedUsage) -> dict[str, int]:
    return {"usd": priced.micro_usd, "tokens": priced.tokens}


def _format_amount(unit: str, amount: int) -> str:
    if unit == "usd":
        return f"${amount / 1_000_000:.{2 if amount >= CENT else 6}f}"
    return f"{amount:,} tokens"
