"""Wait before the next try of a call: until the time the provider named, or twice as long each time.

A rate limit holds for the whole account, so a shared file tells the other gateways of the runtime when to try again.
The first call that succeeds removes the file; the orchestrator removes it, too, to make them try now.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field

from blueflame.gateway.model_api.failures import (
    MAX_REASON_LENGTH,
    MODEL,
    OF_THE_CALL,
    OUTAGE,
    RATE_LIMIT,
    UNSUPPORTED,
    ProviderFailure,
)
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.options import ModelOptions
from blueflame.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """Seconds. Without a time from the provider each wait is twice the one before, plus up to a quarter."""

    first: float = 2.0
    longest: float = 60.0
    poll: float = 1.0  # between two reads of the shared file
    let_first: float = 10.0  # after a shared limit, in which those who wait let the one try that met it
    forget: float = 600.0  # without a failure of the kind, after which its period is over
    first_ping: float = 60.0  # after which a client that waits for a stream gets pings
    ping: float = 15.0  # between two pings
    renewal: float = 4.0  # after which a call that has not ended is recorded again, and when it is twice as old
    silence: float = 90.0  # without a byte of a stream, after which the agent waits for its model


class WaitExceeded(Exception):
    """The call has waited as long as it may, or would have to wait longer."""

    def __init__(self, failure: ProviderFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@dataclass(slots=True, eq=False)
class CallWait:
    """The waits of one call, over all its tries."""

    since: dict[str, float] = field(default_factory=dict)
    tries: int = 0


@dataclass(slots=True)
class FailurePeriod:
    """Failures of one kind in a row, of all calls: a client that gives up and asks again does not start a new wait."""

    since: float
    seen: float


class AccountWait:
    def __init__(self, options: ModelOptions, folder: str, reporter: StatusReporter, wait_times: WaitTimes) -> None:
        self._options = options
        self._folder = folder  # of the attempt: two repositories of a house may have attempts with the same id
        self._reporter = reporter
        self._wait_times = wait_times
        self._periods: dict[str, FailurePeriod] = {}
        self._parked: dict[int, dict[str, object]] = {}
        self._reported: dict[str, object] | None = None
        self._answered: set[str] = set()  # models
        self._let_first = wait_times.let_first * random.uniform(0.5, 1.0)  # noqa: S311 (no secret)

    def is_clear(self) -> bool:
        found = self._read_shared()
        return found is None or self._find_turn(found) <= time.time()

    def _find_turn(self, found: Mapping[str, object]) -> float:
        """Find when we try: not all at once at the end of the limit, but first the one that met it.

        Its success removes the file; if it is gone, the others try one after the other.
        """
        until = _to_float(found.get("until"))
        return until if found.get("folder") == self._folder else until + self._let_first

    async def wait_for_shared_limit(self, wait: CallWait) -> None:
        """Wait while another gateway reports a limit of the account. Raises WaitExceeded."""
        while (found := self._read_shared()) is not None and (turn := self._find_turn(found)) > time.time():
            until = _to_float(found.get("until"))
            words = str(found.get("reason", ""))[:MAX_REASON_LENGTH] or "the account's rate limit is reached"
            failure = ProviderFailure(RATE_LIMIT, words, until, 429)
            self._check_deadline(wait, failure, until)
            self._add_waiting(wait, failure)
            await asyncio.sleep(min(self._wait_times.poll, max(0.0, turn - time.time())))

    async def wait_for_retry(self, wait: CallWait, failure: ProviderFailure) -> None:
        """Wait until the next try. Raises WaitExceeded."""
        again = self._check_deadline(wait, failure, self._schedule_retry(wait, failure))
        self._add_waiting(wait, failure)
        shares = failure.kind == RATE_LIMIT and self._write_shared(wait, failure, again)
        while (left := again - time.time()) > 0:
            await asyncio.sleep(min(self._wait_times.poll, left))
            if shares and self._read_shared() is None:
                return  # another call succeeded, or the orchestrator asks for a try now

    def refuse_account(self, failure: ProviderFailure, model: str) -> WaitExceeded:
        """Report that the provider refuses the account: there is nothing to wait for."""
        is_withdrawn = failure.kind == MODEL and model in self._answered
        is_of_the_call = failure.kind == MODEL or (failure.kind == UNSUPPORTED and failure.status in OF_THE_CALL)
        if not is_of_the_call or not self._answered or is_withdrawn:  # else one of the agent's calls was wrong
            self._reporter.report_gave_up({"kind": failure.kind, "reason": failure.reason, "account": True})
        return WaitExceeded(failure)

    def report_silence(self, wait: CallWait, failure: ProviderFailure) -> None:
        """Report that the call waits for a provider which has sent nothing for long, and when it waits for too long."""
        with suppress(WaitExceeded):
            self._check_deadline(wait, failure, time.time())
        self._add_waiting(wait, failure)

    def stop_waiting(self, wait: CallWait) -> None:
        """Report that the call no longer waits."""
        if self._parked.pop(id(wait), None) is not None:
            for period in self._periods.values():
                period.seen = time.time()
            self._report_longest()

    def record_success(self, sent_at: float, model: str) -> None:
        """End the shared limit, unless it was reported after this answered call was sent."""
        self._answered.add(model)
        self._reporter.report_answered()
        self._periods.clear()
        found = self._read_shared()
        if found is not None and _to_float(found.get("since")) <= sent_at:
            with suppress(OSError):
                os.unlink(self._options.shared)  # noqa: PTH108 (the gateway is light)

    def _schedule_retry(self, wait: CallWait, failure: ProviderFailure) -> float:
        now = time.time()
        wait.tries += 1
        if failure.until is not None and failure.until > now:
            return failure.until + random.uniform(0, min(1.0, (failure.until - now) / 10))  # noqa: S311 (no secret)
        pause = min(self._wait_times.longest, self._wait_times.first * 2 ** min(wait.tries - 1, 20))
        return float(now + pause * random.uniform(1.0, 1.25))  # noqa: S311

    def _check_deadline(self, wait: CallWait, failure: ProviderFailure, again: float) -> float:
        """Return when to try again. Raises WaitExceeded when that is known to be too late."""
        limited, now = failure.kind == RATE_LIMIT, time.time()
        kind = RATE_LIMIT if limited else OUTAGE
        since = min(self._track_failure(kind, now).since, wait.since.setdefault(kind, now))
        last = since + (self._options.rate_limit_wait if limited else self._options.outage_wait)
        if now >= last or (failure.until is not None and failure.until > last):
            self._reporter.report_gave_up({"kind": failure.kind, "reason": failure.reason})
            raise WaitExceeded(failure)
        return min(again, last)

    def _track_failure(self, kind: str, now: float) -> FailurePeriod:
        period = self._periods.get(kind)
        if period is None or now - period.seen > self._wait_times.forget:
            period = self._periods[kind] = FailurePeriod(now, now)
        period.seen = now
        return period

    def _add_waiting(self, wait: CallWait, failure: ProviderFailure) -> None:
        since = min(wait.since.values())
        why = {"kind": failure.kind, "reason": failure.reason, "until": failure.until, "since": since}
        self._parked[id(wait)] = dict(why)
        self._report_longest()

    def _report_longest(self) -> None:
        """Report the longest wait of all calls, when it has changed."""
        longest = max(self._parked.values(), key=lambda why: _to_float(why["until"]), default=None)
        if longest is None and self._reported is not None:
            self._reporter.report("resumed")
        elif longest is not None and longest != self._reported:
            self._reporter.report("parked", longest)
        self._reported = longest

    def _read_shared(self) -> dict[str, object] | None:
        if not self._options.shared:
            return None
        try:
            with open(self._options.shared, "rb") as file:  # noqa: PTH123
                found = json.loads(file.read(65536))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _write_shared(self, wait: CallWait, failure: ProviderFailure, again: float) -> bool:
        """Write the shared file. `until` is our next try: a gateway that has ended must not delay others any longer."""
        path = self._options.shared
        if not path:
            return False
        since = wait.since[RATE_LIMIT]
        content = {"kind": failure.kind, "reason": failure.reason, "until": again, "since": since}
        draft = f"{path}.{os.getpid()}.draft"
        try:
            with suppress(FileExistsError):  # not its parents: the repository may have been renamed
                os.mkdir(os.path.dirname(path))  # noqa: PTH102, PTH120
            with open(draft, "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(json.dumps({**content, "folder": self._folder}))
            os.replace(draft, path)  # noqa: PTH105
        except OSError:
            return False  # the other gateways will get the rate limit from the provider
        return True


def _to_float(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
