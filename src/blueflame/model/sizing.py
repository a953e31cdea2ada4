"""How much machinery a request needs: its tier, why, and what each tier would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum, StrEnum

from blueflame.lazy_dataclass import dataclass

CLEAR = 0.7
"""The confidence from which a sizing decides."""


class Tier(IntEnum):
    DIRECT = 1  # an obvious change in one place: one agent, the checks, no plan
    SINGLE = 2  # one part of the code base, clear in scope: one agent, the checks, no plan
    PLANNED = 3  # several parts: a plan, several agents, reviews


class ChosenBy(StrEnum):
    """Who chose the workflow of a session."""

    CODE = "code"  # the sizing was clear
    AGENT = "agent"  # an agent that was asked, as the code was not sure
    HISTORY = "history"  # similar requests of earlier sessions were
    UNSURE = "unsure"  # none of them was: the planned workflow
    PERSON = "person"  # --tier, --workflow or the gate
    SETTINGS = "settings"  # planning.workflow or planning.triage


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMap:
    """What sizing knows of the code base."""

    files: tuple[str, ...] = ()
    tests: frozenset[str] = frozenset()
    sources: int = 0  # files of programming languages, tests among them
    defined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by the names of symbols; as far as parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What a request looks like, without asking a model."""

    tier: Tier
    confidence: float  # 0 to 1
    reasons: tuple[str, ...]
    parts: int = 1  # separate pieces of work
    by_history: bool = False  # without similar requests it would be another

    @property
    def is_clear(self) -> bool:
        return self.confidence >= CLEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAnswer:
    """What an agent says of a request that the code could not size."""

    tier: Tier
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierForecast:
    """What a request would cost in one tier, and how long agents would work."""

    tier: Tier
    workflow: str
    low: int  # millionths of a dollar
    high: int
    seconds_low: float
    seconds_high: float
    attempts: int = 0  # recorded ones that the figures are based on; 0 for reference figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """The decision on a request, as the journal keeps it."""

    tier: Tier
    workflow: str
    chosen_by: ChosenBy
    sizing: Sizing
    forecasts: tuple[TierForecast, ...] = ()
    is_one_agent_cheaper: bool = False  # and not slower than the planned workflow
    asks: str = ""  # the role that sizes it before anything else is started


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRequest:
    """A request of an earlier session and what became of it."""

    session: str
    request: str
    at: float
    tier: Tier
    chosen_by: ChosenBy
    tasks: int
    landed: int
    failed: int
