"""What one agent leaves for the next one: what it changed, by git, and what it says, which is data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from blueflame.lazy_dataclass import dataclass

WORDS: Mapping[str, str] = {
    "summary": "what you did, in a few sentences",
    "learnings": "what the next agent should know about this project, and cannot see in the change",
    "blockers": "what keeps the task from being finished",
    "recommendations": "what the next agent should look at or do",
}
"""The parts that an agent words itself, and what each is for."""


@dataclass(frozen=True, slots=True)
class TouchedFile:
    path: str
    how: str  # created | modified | deleted | renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff:
    summary: tuple[str, ...] = ()
    learnings: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()
    confidence: float | None = None
    files: tuple[TouchedFile, ...] = ()  # the first of them
    more_files: int = 0
    problems: tuple[str, ...] = ()  # what was cut or left out of the agent's answer, and why


class HandOffStatus(StrEnum):
    """How the stage ended, by its attempt and its verdict; never by the agent's own claim."""

    COMPLETE = "COMPLETE"
    BLOCKED = "BLOCKED"  # it did not pass, and named what stopped it
    FAILED = "FAILED"
