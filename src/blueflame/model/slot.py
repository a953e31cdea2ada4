"""A slot of the house's pool, as a session sees it: why one of its agents waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWait:
    """An agent that gets no slot of the pool now."""

    subject: str  # what it would work on
    reason: str
    project: str = ""
    ahead: int = 0  # how many wait before it
    seconds: float | None = None  # about how long; None if that is not known
    occupants: tuple[str, ...] = ()  # who has the slots that it waits for
    is_late: bool = False  # so many wait before it that people should know
    may_spawn: bool = False  # an ad hoc agent could start now, beside those of its role
    ad_hoc: bool = False  # it may be one

    @property
    def queue(self) -> str:
        """`about 15 min, 1 task ahead`"""
        tasks = "1 task" if self.ahead == 1 else f"{self.ahead} tasks"
        about = f"about {max(1, round(self.seconds / 60))} min" if self.seconds is not None else ""
        return ", ".join(part for part in (about, f"{tasks} ahead" if self.ahead else "next in the queue") if part)
