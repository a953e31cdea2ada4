"""Calls that cannot be answered now wait here: until the provider said, or a little longer each time.

A rate limit is the account's, so that it is shared: a file tells the other gateways of the runtime when to come again.
Whoever gets through first removes it, and so may the orchestrator: "try now".
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field

from blueflame.gateway.model_api.failures import MAX_REASON_LENGTH, OUTAGE, RATE_LIMIT, ProviderFailure
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.options import ModelOptions


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """Seconds between two tries when nobody says when; each wait is twice the one before, and up to a quarter more."""

    first: float = 2.0
    longest: float = 60.0
    look: float = 1.0  # between two looks at the shared file
    over: float = 600.0  # after which nobody speaks of the same trouble any more
    soothe: float = 60.0  # after which a client that waits for a stream is told that somebody is there, and how often
    ping: float = 15.0


class WaitExceeded(Exception):
    """It has waited for as long as it may, or would have to wait for longer."""

    def __init__(self, trouble: ProviderFailure) -> None:
        super().__init__(trouble.reason)
        self.trouble = trouble


@dataclass(slots=True, eq=False)
class CallWait:
    """One call's waiting, over all its tries."""

    since: dict[str, float] = field(default_factory=dict)
    tries: int = 0


@dataclass(slots=True)
class FailurePeriod:
    """Trouble of one kind, whichever call has met it: a client that loses patience and asks again gains no time."""

    since: float
    seen: float


class RateLimitWait:
    def __init__(self, orders: ModelOptions, attempt: str, teller: StatusReporter, pace: WaitTimes) -> None:
        self._orders = orders
        self._attempt = attempt
        self._teller = teller
        self._pace = pace
        self._spells: dict[str, FailurePeriod] = {}
        self._parked: dict[int, dict[str, object]] = {}
        self._told: dict[str, object] | None = None

    def is_clear(self) -> bool:
        found = self._read_shared()
        return found is None or _to_float(found.get("until")) <= time.time()

    async def wait_for_shared_limit(self, stay: CallWait) -> None:
        """Waits while another gateway of the runtime has met a limit of the account. Raises GaveUp."""
        while (found := self._read_shared()) is not None and (until := _to_float(found.get("until"))) > time.time():
            words = str(found.get("reason", ""))[:MAX_REASON_LENGTH] or "the account's rate limit is reached"
            trouble = ProviderFailure(RATE_LIMIT, words, until, 429)
            self._check_deadline(stay, trouble, until)
            self._add_waiting(stay, trouble)
            await asyncio.sleep(min(self._pace.look, max(0.0, until - time.time())))

    async def wait_for_retry(self, stay: CallWait, trouble: ProviderFailure) -> None:
        """Until the next try. Raises GaveUp."""
        again = self._check_deadline(stay, trouble, self._schedule_retry(stay, trouble))
        self._add_waiting(stay, trouble)
        shares = trouble.kind == RATE_LIMIT and self._write_shared(stay, trouble, again)
        while (left := again - time.time()) > 0:
            await asyncio.sleep(min(self._pace.look, left))
            if shares and self._read_shared() is None:
                return  # somebody got through, or wants us to try

    def stop_waiting(self, stay: CallWait) -> None:
        """It waits no longer, whatever became of it."""
        if self._parked.pop(id(stay), None) is not None:
            for spell in self._spells.values():
                spell.seen = time.time()
            self._report_longest()

    def record_success(self, sent_at: float) -> None:
        """A call was answered: a limit that was met before it was sent is over for all."""
        self._spells.clear()
        found = self._read_shared()
        if found is not None and _to_float(found.get("since")) <= sent_at:
            with suppress(OSError):
                os.unlink(self._orders.shared)  # noqa: PTH108 (the gateway is light)

    def _schedule_retry(self, stay: CallWait, trouble: ProviderFailure) -> float:
        now = time.time()
        stay.tries += 1
        if trouble.until is not None and trouble.until > now:
            return trouble.until + random.uniform(0, min(1.0, (trouble.until - now) / 10))  # noqa: S311 (no secret)
        pause = min(self._pace.longest, self._pace.first * 2 ** min(stay.tries - 1, 20))
        return float(now + pause * random.uniform(1.0, 1.25))  # noqa: S311

    def _check_deadline(self, stay: CallWait, trouble: ProviderFailure, again: float) -> float:
        """When to try again. Nobody waits for a moment that is known to come too late."""
        limited, now = trouble.kind == RATE_LIMIT, time.time()
        kind = RATE_LIMIT if limited else OUTAGE
        since = min(self._track_failure(kind, now).since, stay.since.setdefault(kind, now))
        last = since + (self._orders.rate_limit_wait if limited else self._orders.outage_wait)
        if now >= last or (trouble.until is not None and trouble.until > last):
            self._teller.report_gave_up({"kind": trouble.kind, "reason": trouble.reason})
            raise WaitExceeded(trouble)
        return min(again, last)

    def _track_failure(self, kind: str, now: float) -> FailurePeriod:
        spell = self._spells.get(kind)
        if spell is None or now - spell.seen > self._pace.over:
            spell = self._spells[kind] = FailurePeriod(now, now)
        spell.seen = now
        return spell

    def _add_waiting(self, stay: CallWait, trouble: ProviderFailure) -> None:
        since = min(stay.since.values())
        why = {"kind": trouble.kind, "reason": trouble.reason, "until": trouble.until, "since": since}
        self._parked[id(stay)] = dict(why)
        self._report_longest()

    def _report_longest(self) -> None:
        """The longest wait of all that are parked, when that has changed."""
        longest = max(self._parked.values(), key=lambda why: _to_float(why["until"]), default=None)
        if longest is None and self._told is not None:
            self._teller.report_resumed()
        elif longest is not None and longest != self._told:
            self._teller.report_parked(longest)
        self._told = longest

    def _read_shared(self) -> dict[str, object] | None:
        if not self._orders.shared:
            return None
        try:
            with open(self._orders.shared, "rb") as file:  # noqa: PTH123
                found = json.loads(file.read(65536))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _write_shared(self, stay: CallWait, trouble: ProviderFailure, again: float) -> bool:
        """`until` is when we try again, so that nobody waits for ever on a gateway that has ended."""
        path = self._orders.shared
        if not path:
            return False
        since = stay.since[RATE_LIMIT]
        content = {"kind": trouble.kind, "reason": trouble.reason, "until": again, "since": since}
        draft = f"{path}.{os.getpid()}.draft"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            with open(draft, "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(json.dumps({**content, "attempt": self._attempt}))
            os.replace(draft, path)  # noqa: PTH105
        except OSError:
            return False  # the others will find out by themselves
        return True


def _to_float(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
