"""The verdict on a guard: enforced, detected only, impossible here or off, and what was seen."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias


class GuardState(StrEnum):
    ENFORCED = "enforced"
    DETECTED = "detected only"
    IMPOSSIBLE = "impossible here"
    OFF = "off"  # by the configuration


GuardFinding: TypeAlias = tuple[GuardState, str]
UNSEEN: GuardFinding = (GuardState.IMPOSSIBLE, "the kernel gives no information about the process inside")


def judge_breaches(breaches: list[str], seen: str) -> GuardFinding:
    if breaches:
        return GuardState.IMPOSSIBLE, f"NOT HELD: {'; '.join(breaches)}"
    return GuardState.ENFORCED, seen
