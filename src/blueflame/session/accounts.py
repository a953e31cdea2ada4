"""Who cost what: attempts as entries of an account, summed up by whatever a person asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from blueflame.model.event import JournalEntry, PlanApproved, PlanProposed
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.session.estimate import CostRange, estimate_cost
from blueflame.session.replay import replay

UNKNOWN_MODEL = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEntry:
    """One attempt. `by_model` adds up to `spend`; while it is `live`, both are what its meter says now."""

    session: str
    attempt: str
    agent: str
    role: str
    subject: str
    n: int
    day: str
    ending: str  # "" while it is at work
    spend: Spend
    by_model: Mapping[str, Spend] = field(default_factory=dict)
    metered: bool = False  # counted at the gateway, not only told by the agent
    unpriced: tuple[str, ...] = ()
    incomplete: int = 0
    damaged: int = 0

    @property
    def live(self) -> bool:
        return not self.ending


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    name: str
    spend: Spend = NO_SPEND
    attempts: int = 0
    live: int = 0


def _charge_to(name: Callable[[CostEntry], str]) -> Callable[[CostEntry], Mapping[str, Spend]]:
    return lambda entry: {name(entry): entry.spend}


GROUPINGS: Mapping[str, Callable[[CostEntry], Mapping[str, Spend]]] = {
    "agent": _charge_to(lambda entry: entry.agent),
    "role": _charge_to(lambda entry: entry.role),
    "task": _charge_to(lambda entry: entry.subject),
    "model": lambda entry: entry.by_model,
    "session": _charge_to(lambda entry: entry.session),
    "day": _charge_to(lambda entry: entry.day),
}
"""What a person can ask by, and whose account an attempt goes to then."""


def sum_costs_by(entries: Iterable[CostEntry], by: str) -> tuple[CostTotal, ...]:
    """In the order in which each name is first met."""
    found: dict[str, CostTotal] = {}
    for entry in entries:
        for name, spend in GROUPINGS[by](entry).items():
            before = found.get(name, CostTotal(name=name))
            found[name] = replace(
                before,
                spend=before.spend + spend,
                attempts=before.attempts + 1,
                live=before.live + entry.live,
            )
    return tuple(found.values())


def sum_spend(entries: Iterable[CostEntry]) -> Spend:
    return sum((entry.spend for entry in entries), NO_SPEND)


def split_by_model(by_model: Mapping[str, Spend], spend: Spend, otherwise: str) -> Mapping[str, Spend]:
    """What an attempt cost in the end, split as its meter saw its models. Not one millionth is lost on the way."""
    metered = sum(by_model.values(), NO_SPEND)
    if not by_model or replace(metered, micro_usd=0) != replace(spend, micro_usd=0):
        return {otherwise or UNKNOWN_MODEL: spend} if spend != NO_SPEND else {}
    shares = {
        model: replace(part, micro_usd=spend.micro_usd * part.micro_usd // (metered.micro_usd or 1))
        for model, part in by_model.items()
    }
    dearest = max(shares, key=lambda model: (shares[model].micro_usd, shares[model].tokens, model))
    left = spend.micro_usd - sum(part.micro_usd for part in shares.values())
    shares[dearest] = replace(shares[dearest], micro_usd=shares[dearest].micro_usd + left)
    return shares


def forecast_cost(events: Sequence[JournalEntry]) -> CostRange | None:
    """The range that was shown with the newest plan: its tasks, by the limits of that moment."""
    plans = [n for n, each in enumerate(events) if isinstance(each.event, PlanApproved | PlanProposed)]
    if not plans:
        return None
    planned = events[plans[-1]].event
    assert isinstance(planned, PlanApproved | PlanProposed)
    session = replay(events[: plans[-1] + 1])
    return estimate_cost(planned.tasks, session.limits, session.workflow)
