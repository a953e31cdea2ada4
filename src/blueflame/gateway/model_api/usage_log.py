"""usage.jsonl: one line per call to a model, written when it ends or is refused.

It is locked while this gateway runs, so that a later warden can wait for its last line.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass

from blueflame.billing.prices import PriceRow, compute_cost, find_row, is_dearer, parse_row
from blueflame.billing.usage import Usage
from blueflame.gateway.access_log import format_now
from blueflame.gateway.options import ModelOptions
from blueflame.system.fd import append_line

FILE_NAME = "usage.jsonl"


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
    api: str
    status: int
    refused: str
    ms: int
    first_byte_ms: int
    tries: int


class UsageLog:
    """The log file. `problem` says why a line could not be written: nothing more is let through then."""

    def __init__(self, folder: str, attempt: str) -> None:
        self._file = os.open(f"{folder}/{FILE_NAME}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._attempt = attempt
        self.problem = ""

    def write(self, line: CallRecord, priced: PricedUsage) -> None:
        usage = priced.usage
        content = {
            "at": format_now(),
            "attempt": self._attempt,
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
        if failure := append_line(self._file, (json.dumps(content) + "\n").encode()):
            self.problem = f"the record of what the model costs cannot be written: {failure}"

    def close(self) -> None:
        os.close(self._file)
