"""usage.jsonl: one line per call to a model, written when it ends or is refused.

It is locked while this gateway runs, so that a later warden can wait for its last line.
sent.jsonl: what a call may have used until it is recorded there again, or that it was not answered after all. The last
one counts for a call without a line in usage.jsonl: the gateway was killed before it ended.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping

from blueflame.billing.prices import PriceRow, compute_cost, find_row, is_dearer, parse_row
from blueflame.billing.usage import Usage
from blueflame.gateway.access_log import format_now
from blueflame.gateway.options import ModelOptions
from blueflame.lazy_dataclass import dataclass
from blueflame.system.fd import append_line

FILE_NAME, SENT_NAME = "usage.jsonl", "sent.jsonl"


@dataclass(frozen=True, slots=True)
class PricedUsage:
    usage: Usage
    micro_usd: int
    priced_as: str

    @property
    def tokens(self) -> int:
        return self.usage.input + self.usage.output + self.usage.cache_read + self.usage.cache_write


class PriceList:
    def __init__(self, options: ModelOptions) -> None:
        self._rows = tuple(parse_row(row) for row in options.prices)
        self._models = options.models
        self._fallback = parse_row({**options.fallback, "model": "fallback"})

    def price_usage(self, usage: Usage) -> PricedUsage:
        row = self.find_row(usage)
        return PricedUsage(usage, compute_cost(row, usage), row.model)

    def is_dearer(self, model: str) -> bool:
        """Whether the model costs more than those of the agent's role."""
        return is_dearer(self._rows, model, self._models)

    def find_row(self, usage: Usage) -> PriceRow:
        return find_row(self._rows, usage, self._fallback)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    number: int  # of the call, in this gateway
    api: str
    status: int
    refused: str
    ms: int
    first_byte_ms: int
    tries: int


class UsageLog:
    """The log file. `problem` says why a line could not be written: nothing more is let through then."""

    def __init__(self, folder: str, attempt: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file, self._sent = (os.open(f"{folder}/{name}", flags, 0o644) for name in (FILE_NAME, SENT_NAME))
        fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._attempt = attempt
        self.problem = ""

    def write_sent(self, line: CallRecord, expected: PricedUsage) -> None:
        """Record a call before it is sent, and while it is answered."""
        self._append(self._sent, self._build_content(line, expected))

    def withdraw_sent(self, line: CallRecord) -> None:
        """Record that the provider did not answer a call that was sent: it used nothing so far."""
        self._append(self._sent, {"call": line.number})

    def write(self, line: CallRecord, priced: PricedUsage) -> None:
        self._append(self._file, self._build_content(line, priced))

    def _build_content(self, line: CallRecord, priced: PricedUsage) -> dict[str, object]:
        usage = priced.usage
        return {
            "at": format_now(),
            "attempt": self._attempt,
            "call": line.number,
            "api": line.api,
            "model": usage.model,
            "status": line.status,
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "cache_write_1h": usage.cache_write_1h,
            "web_search": usage.web_search,
            "micro_usd": priced.micro_usd,
            "priced_as": priced.priced_as,
            "complete": usage.complete,
            "refused": line.refused,
            "ms": line.ms,
            "first_byte_ms": line.first_byte_ms,
            "tries": line.tries,
        }

    def _append(self, file: int, content: Mapping[str, object]) -> None:
        if failure := append_line(file, (json.dumps(content) + "\n").encode()):
            self.problem = f"the record of what the model costs cannot be written: {failure}"

    def close(self) -> None:
        os.close(self._sent)
        os.close(self._file)
