"""Forecast what a request would cost in each tier, and how long agents would work, from recorded attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from blueflame.model.attempt import PLANNER, VALIDATOR, WORKER, Duty
from blueflame.model.limits import Limits
from blueflame.model.memory import MemoryRecord
from blueflame.model.sizing import Tier, TierForecast
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow
from blueflame.session.estimate import estimate_cost, learn_ranges


class TimeRange(NamedTuple):
    low: float
    high: float
    attempts: int = 0


REFERENCE_TIMES: Mapping[str, TimeRange] = {
    PLANNER: TimeRange(120, 300),
    WORKER: TimeRange(300, 900),
    VALIDATOR: TimeRange(60, 300),
}
"""Seconds per attempt, used until enough attempts are recorded."""
OBVIOUS_CHANGE = TimeRange(120, 300)


class TierPlan(NamedTuple):
    """How a tier would be run."""

    workflow: Workflow
    limits: Limits


def forecast_tiers(
    parts: int, plans: Mapping[Tier, TierPlan], times: Mapping[str, TimeRange]
) -> tuple[TierForecast, ...]:
    """Forecast each tier. `parts`: separate pieces of work, which one agent does one after the other."""
    return tuple(_forecast_tier(tier, parts, plan, times) for tier, plan in sorted(plans.items()))


def _forecast_tier(tier: Tier, parts: int, plan: TierPlan, times: Mapping[str, TimeRange]) -> TierForecast:
    tasks = tuple(Task(id=f"task-{n:03}", title="part", description="part") for n in range(1, parts + 1))
    cost = estimate_cost(tasks, plan.limits, plan.workflow)
    time = _add_up_time(tier, parts, plan, times)
    return TierForecast(
        tier=tier,
        workflow=plan.workflow.name,
        low=cost.low,
        high=cost.high,
        seconds_low=time.low,
        seconds_high=time.high,
        attempts=max([time.attempts, *(role.learned_from for role in cost.roles)]),
    )


def _add_up_time(tier: Tier, parts: int, plan: TierPlan, times: Mapping[str, TimeRange]) -> TimeRange:
    """Without retries and without people: a planner, the batches of each making stage, the last of each review."""
    usual = {**REFERENCE_TIMES, **times}
    worker = usual[WORKER] if tier is not Tier.DIRECT or WORKER in times else OBVIOUS_CHANGE
    steps = plan.workflow.task_stages
    planned, makes = plan.workflow.is_planned, sum(step.duty is Duty.MAKE for step in steps)
    rounds = makes * (ceil(parts / max(plan.limits.workers, 1)) if planned else parts)
    others = [usual[PLANNER]] if planned else []
    others += [usual[VALIDATOR] for step in steps if step.duty is Duty.JUDGE and step.role]
    return TimeRange(
        rounds * worker.low + sum(each.low for each in others),
        rounds * worker.high + sum(each.high for each in others),
        worker.attempts,
    )


def is_one_agent_cheaper(forecasts: Iterable[TierForecast]) -> bool:
    """Whether one agent costs less than the planned workflow, and is not slower."""
    by_tier = {forecast.tier: forecast for forecast in forecasts}
    one, planned = by_tier.get(Tier.SINGLE), by_tier.get(Tier.PLANNED)
    if one is None or planned is None:
        return False
    return one.low < planned.low and one.high < planned.high and one.seconds_high <= planned.seconds_high


def learn_times(records: Iterable[MemoryRecord]) -> Mapping[str, TimeRange]:
    """Return how long recent attempts of each role took."""
    return {role: TimeRange(*found) for role, found in learn_ranges(records, lambda spent: spent.seconds).items()}
