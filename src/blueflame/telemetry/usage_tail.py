"""What the gateway of a running attempt has counted so far, call by call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blueflame.model.spend import NO_SPEND, Spend
from blueflame.system.tail import STEP, Tail
from blueflame.telemetry.usage import USAGE_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    at: str
    model: str
    spend: Spend
    refused: str  # why it was not let through: budget, parked; "" when it was


class UsageTail:
    """One for each view of each attempt. `spend` is None until the gateway has written its first line."""

    def __init__(self, folder: Path) -> None:
        self._tail = Tail(folder / USAGE_FILE)
        self.spend: Spend | None = None

    def calls(self, *, most: int = STEP) -> Iterator[ModelCall]:
        for line in self._tail.objects(most=most):
            refused = str(line.get("refused", ""))
            call = ModelCall(
                at=str(line.get("at", "")),
                model=str(line.get("model", "")),
                spend=NO_SPEND if refused else _spend(line),
                refused=refused,
            )
            self.spend = (self.spend or NO_SPEND) + call.spend
            yield call

    def read_on(self, *, most: int = STEP) -> None:
        for _call in self.calls(most=most):
            pass


def _spend(line: Mapping[str, Any]) -> Spend:
    return Spend(
        micro_usd=_whole(line.get("micro_usd")),
        input_tokens=_whole(line.get("input")),
        output_tokens=_whole(line.get("output")),
        cache_read_tokens=_whole(line.get("cache_read")),
        cache_write_tokens=_whole(line.get("cache_write")),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
