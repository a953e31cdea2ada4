"""A seat: a lasting member of the team, with a role and a domain. Attempts are its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace

from blueflame.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Who it is, and what it has done: in one session, or in all of them."""

    name: str  # its role and a number
    role: str
    domain: str  # of its first task; it stays
    tasks: Mapping[str, int] = field(default_factory=dict)  # domain -> tasks of it that it has worked on
    landed: int = 0  # tasks that it made and that landed
    first_time: int = 0  # those of them that passed with the first attempt
    last_at: float = 0.0  # when its last attempt ended

    def add(self, other: Seat) -> Seat:
        """Return the seat with what it did at another time."""
        return replace(
            self,
            tasks=dict(sorted((Counter(self.tasks) + Counter(other.tasks)).items())),
            landed=self.landed + other.landed,
            first_time=self.first_time + other.first_time,
            last_at=max(self.last_at, other.last_at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Who makes an attempt, and why: decided when it is intended."""

    seat: str
    domain: str  # of the task
    reason: str
    is_new: bool = False  # the seat begins with this task, which sets its domain
    continues: str = ""  # the attempt at another task whose conversation it continues
    is_last: bool = False  # of the tasks that this conversation may have
    reset: str = ""  # why the conversation that it could continue is not continued
    is_budget_reset: bool = False  # because its budget is used up


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBudget:
    """How long a seat may continue one conversation."""

    tokens: int
    tasks: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """What a session knows of the team when it is opened."""

    seats: tuple[Seat, ...] = ()
    split: tuple[str, ...] = ()  # folders that hold several domains (paths/domains)


NEW_TEAM = Team()
