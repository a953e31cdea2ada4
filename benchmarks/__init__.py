"""What Blue Flame is measured by. `python -m benchmarks` runs all; nothing here is a timed test.

Each module has `run`, and in `SMALL` what its sizes are with `--small`: enough to see that it still works.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number, and what it is aimed at, if anything."""

    name: str
    value: float
    unit: str = ""
    aim: float | None = None  # at most this

    @property
    def met(self) -> bool | None:
        return None if self.aim is None else self.value <= self.aim


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    name: str
    about: str
    figures: tuple[Figure, ...]
