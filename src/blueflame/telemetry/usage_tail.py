"""What the gateway of a running attempt has counted so far, call by call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blueflame.model.spend import NO_SPEND, Spend
from blueflame.system.tail import STEP_BYTES, FileTail
from blueflame.telemetry.usage import USAGE_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredCall:
    at: str
    model: str
    spend: Spend
    refused: str  # why it was not let through: budget, parked; "" when it was


class UsageTail:
    """One for each view of each attempt. `spend` is None until the gateway has written its first line."""

    def __init__(self, folder: Path) -> None:
        self._tail = FileTail(folder / USAGE_FILE)
        self.spend: Spend | None = None

    def read_calls(self, *, most: int = STEP_BYTES) -> Iterator[MeteredCall]:
        for line in self._tail.read_objects(most=most):
            refused = str(line.get("refused", ""))
            call = MeteredCall(
                at=str(line.get("at", "")),
                model=str(line.get("model", "")),
                spend=NO_SPEND if refused else _parse_spend(line),
                refused=refused,
            )
            self.spend = (self.spend or NO_SPEND) + call.spend
            yield call

    def read_new(self, *, most: int = STEP_BYTES) -> None:
        for _call in self.read_calls(most=most):
            pass


def _parse_spend(line: Mapping[str, Any]) -> Spend:
    return Spend(
        micro_usd=_parse_count(line.get("micro_usd")),
        input_tokens=_parse_count(line.get("input")),
        output_tokens=_parse_count(line.get("output")),
        cache_read_tokens=_parse_count(line.get("cache_read")),
        cache_write_tokens=_parse_count(line.get("cache_write")),
    )


def _parse_count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
