"""Reserve budget before each call: no budget is exceeded by more than one call, however many run at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import NoReturn

from blueflame.billing.usage import FEWEST_BYTES_PER_TOKEN, Usage, UsageReader
from blueflame.gateway.model_api.asked import AskedCall
from blueflame.gateway.model_api.errors import BUDGET_STATUS
from blueflame.gateway.model_api.failures import NETWORK
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.model_api.usage_log import PricedUsage, PriceList
from blueflame.gateway.options import BudgetLimit
from blueflame.lazy_dataclass import dataclass
from blueflame.system.http import RequestRefused
from blueflame.text.format import format_dollars

BYTES_PER_TOKEN = 4  # roughly, to estimate what a call will cost
MAX_INPUT_TOKENS = 1_000_000  # no model reads more
HIDDEN_TOKENS_PER_SECOND = 250  # of thinking that a provider charges and does not send
MAX_INPUT_FACTOR = 2  # the context that a search adds is read several times
MAX_OUTPUT_FACTOR, MAX_ADDED_OUTPUT = 2, 1000  # some providers count thinking, or a compaction, besides the limit
MAX_SEARCHES = 1000  # of one call
MAX_CUT_OFF = 5  # calls in a row whose usage is not known
CUT_OFF_HINT = "Something on the way breaks the connection or changes the answers: check the network and its proxies."


@dataclass(eq=False)
class OpenCall:
    """A call that has reserved budget. `reader` knows what it has used so far; `size` is the request's, in bytes."""

    asked: AskedCall
    size: int
    reader: UsageReader | None = None

    def read_usage(self) -> Usage:
        """Return what the provider has reported; of figures that no such call can have, nothing but the model."""
        usage = self.reader.usage if self.reader is not None else Usage()
        return usage if self.is_credible(usage) else Usage(model=usage.model, invalid=True)

    def is_credible(self, usage: Usage) -> bool:
        """Whether any call can have these figures, with much room: what else is charged instead is an estimate.

        The size of the request is no bound of the input: it may name files, images or earlier answers.
        """
        most_input = MAX_INPUT_TOKENS * MAX_INPUT_FACTOR
        most_output = self.asked.max_output * MAX_OUTPUT_FACTOR + MAX_ADDED_OUTPUT
        is_possible = usage.input + usage.cache_read + usage.cache_write <= most_input and usage.output <= most_output
        return is_possible and usage.web_search <= MAX_SEARCHES and not usage.invalid

    def assume_worst(self, bytes_per_token: int = FEWEST_BYTES_PER_TOKEN) -> Usage:
        """Return what a call uses at most whose answer has not ended: the provider may go on without us."""
        usage = self.read_usage()
        reported = usage.input + usage.cache_read + usage.cache_write
        worst = min(self.size // bytes_per_token, MAX_INPUT_TOKENS)
        return replace(
            usage,
            model=usage.model or self.asked.model,
            input=usage.input if reported else worst,
            output=max(usage.output, self.asked.max_output),
        )

    def estimate_broken(self, seconds: float) -> Usage:
        """Return what a call has used whose answer the provider itself ended after that many seconds: what arrived, and
        what the model may have thought meanwhile. At its most if nothing of it could be read."""
        worst = self.assume_worst()
        if self.reader is None or not self.reader.readable:
            return worst
        return self._replace_output(worst, self.reader.estimate_received(), seconds)

    def estimate_ahead(self, seconds: float) -> Usage:
        """Return what a call may have used once it is twice as old as these seconds, if nothing ends it before."""
        arrived = self.reader.estimate_received() if self.reader is not None else 0
        return self._replace_output(self.assume_worst(), 2 * arrived, 2 * seconds)

    def _replace_output(self, worst: Usage, arrived: int, seconds: float) -> Usage:
        output = min(max(arrived, int(seconds * HIDDEN_TOKENS_PER_SECOND)), self.asked.max_output)
        return replace(worst, output=max(self.read_usage().output, output))


class BudgetReservation:
    def __init__(
        self, limits: tuple[BudgetLimit, ...], prices: PriceList, reporter: StatusReporter, *, warn: float
    ) -> None:
        self._limits = limits
        self._prices = prices
        self._reporter = reporter
        self._warn = warn
        self._used = {"usd": 0, "tokens": 0}
        self._cut_off = 0  # calls in a row
        self._broken = 0  # how many of these the provider cut off, not the agent
        self._open_calls: list[OpenCall] = []
        self._changed = asyncio.Event()

    async def wait_to_reserve(self, open_call: OpenCall) -> None:
        """Wait until earlier calls have ended. Raises RequestRefused when a budget is used up."""
        while not self.try_reserve(open_call):
            self._changed.clear()
            await self._changed.wait()

    def try_reserve(self, open_call: OpenCall) -> bool:
        """Reserve, or return False when it must wait. Raises RequestRefused when a budget is used up."""
        self._refuse_if_used_up()
        if not all(self._has_room(limit) for limit in self._limits):
            return False
        self._open_calls.append(open_call)
        return True

    def settle(self, open_call: OpenCall, priced: PricedUsage, *, is_broken: bool = False) -> None:
        """Replace the reservation of an ended call by what it used."""
        if open_call not in self._open_calls:  # it never got a reservation
            return
        self._open_calls.remove(open_call)
        spent = _list_amounts(priced)
        for unit, amount in spent.items():
            self._used[unit] += amount
        self._cut_off = 0 if priced.usage.complete else self._cut_off + 1
        self._broken = 0 if priced.usage.complete else self._broken + is_broken
        self._changed.set()
        self._warn_if_near()

    def _warn_if_near(self) -> None:
        for limit in self._limits:
            used = self._used[limit.unit]
            if used >= limit.limit * self._warn:
                words = f"{_format_amount(limit.unit, used)} of the {_format_amount(limit.unit, limit.limit)} are used"
                self._reporter.report_near({"budget": limit.name, "words": f"{words} that this {limit.name} may cost."})

    def _refuse_if_used_up(self) -> None:
        if self._cut_off >= MAX_CUT_OFF:
            self._refuse({"budget": "attempt"}, f"{MAX_CUT_OFF} answers in a row were cut off, at an unknown cost.")
        for limit in self._limits:
            used = self._used[limit.unit] + sum(
                self._measure_spend(open_call)[limit.unit] for open_call in self._open_calls
            )
            if used >= limit.limit:
                self._refuse(
                    {"budget": limit.name, "unit": limit.unit, "used": used, "limit": limit.limit},
                    f"The budget of this {limit.name} is used up: {_format_amount(limit.unit, used)} of"
                    f" {_format_amount(limit.unit, limit.limit)}.",
                )

    def _refuse(self, why: dict[str, object], reason: str) -> NoReturn:
        """Refuse the next call. It is an outage if answers that the provider cut off used up the attempt's budget."""
        if why["budget"] == "attempt" and self._broken and self._broken == self._cut_off:
            words = f"{reason} {CUT_OFF_HINT}"
            self._reporter.report_gave_up({"kind": NETWORK, "reason": words})
            raise RequestRefused(BUDGET_STATUS, "gave_up", words)
        words = f"{reason} No further call is answered; commit what you have and stop."
        self._reporter.report_refused({**why, "words": words})
        raise RequestRefused(BUDGET_STATUS, "budget", words)

    def _has_room(self, limit: BudgetLimit) -> bool:
        """Whether one more fits, if each open call costs as much as it can."""
        if not self._open_calls:
            return True
        expected = sum(self._estimate_spend(open_call)[limit.unit] for open_call in self._open_calls)
        return self._used[limit.unit] + expected < limit.limit

    def _measure_spend(self, open_call: OpenCall) -> dict[str, int]:
        usage = open_call.read_usage()
        return _list_amounts(self._prices.price_usage(usage)) if usage.complete else {"usd": 0, "tokens": 0}

    def _estimate_spend(self, open_call: OpenCall) -> dict[str, int]:
        if open_call.read_usage().complete:
            return self._measure_spend(open_call)
        return _list_amounts(self._prices.price_usage(open_call.assume_worst(BYTES_PER_TOKEN)))


def _list_amounts(priced: PricedUsage) -> dict[str, int]:
    return {"usd": priced.micro_usd, "tokens": priced.tokens}


def _format_amount(unit: str, amount: int) -> str:
    return format_dollars(amount) if unit == "usd" else f"{amount:,} tokens"
