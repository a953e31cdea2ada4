"""What attempts cost, summed by agent, role, task, model, session or day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace

from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import JournalEntry, PlanApproved, PlanProposed
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import TaskState
from blueflame.session.estimate import CostRange, estimate_cost, is_planned_by_hand
from blueflame.session.replay import replay

UNKNOWN_MODEL = "not known"
DONE = frozenset({TaskState.MERGED, TaskState.VALIDATED})  # stays when a new plan is approved


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEntry:
    """The cost of one attempt. `by_model` adds up to `spend`; while it is `live`, both are the metered cost so far."""

    session: str
    attempt: str
    agent: str
    role: str
    subject: str
    n: int
    day: str
    ending: str  # "" while it runs
    spend: Spend
    by_model: Mapping[str, Spend] = field(default_factory=dict)
    metered: bool = False  # counted by the gateway, not only reported by the agent
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


GROUPINGS: Mapping[str, Callable[[CostEntry], Mapping[str, Spend]]] = {
    "agent": lambda entry: {entry.agent: entry.spend},
    "role": lambda entry: {entry.role: entry.spend},
    "task": lambda entry: {entry.subject: entry.spend},
    "model": lambda entry: entry.by_model,
    "session": lambda entry: {entry.session: entry.spend},
    "day": lambda entry: {entry.day: entry.spend},
}
"""How an attempt's cost is split for each `--by`."""


def sum_costs_by(entries: Iterable[CostEntry], by: str) -> tuple[CostTotal, ...]:
    """Sum the costs of each name, in the order of the entries."""
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
    """Split the final cost of an attempt in the proportions that were metered; the parts add up exactly."""
    metered = sum(by_model.values(), NO_SPEND)
    if not by_model or replace(metered, micro_usd=0) != replace(spend, micro_usd=0):
        return {otherwise or UNKNOWN_MODEL: spend} if spend != NO_SPEND else {}
    shares = {
        model: replace(part, micro_usd=spend.micro_usd * part.micro_usd // (metered.micro_usd or 1))
        for model, part in by_model.items()
    }
    largest = max(shares, key=lambda model: (shares[model].micro_usd, shares[model].tokens, model))
    rest = spend.micro_usd - sum(part.micro_usd for part in shares.values())
    shares[largest] = replace(shares[largest], micro_usd=shares[largest].micro_usd + rest)
    return shares


def forecast_cost(events: Sequence[JournalEntry]) -> CostRange | None:
    """Estimate the cost of the session with its newest plan, as it was then: a new plan does not have what was done."""
    plans = [n for n, each in enumerate(events) if isinstance(each.event, PlanApproved | PlanProposed)]
    if not plans:
        return None
    planned = events[plans[-1]].event
    assert isinstance(planned, PlanApproved | PlanProposed)
    session = replay(events[: plans[-1] + 1])
    done = {name: record.task for name, record in session.tasks.items() if record.state in DONE}
    tasks = tuple((done | {task.id: task for task in planned.tasks}).values())
    return estimate_cost(tasks, session.limits, session.workflow, is_planned=is_planned_by_hand(session))
