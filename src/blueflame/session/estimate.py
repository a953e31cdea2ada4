"""Estimates of a plan, shown before an agent is started: batches of tasks, and a range of cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from blueflame.model.attempt import MERGER, PLANNER, VALIDATOR, WORKER
from blueflame.model.limits import AttemptCostRange, Limits, Workflow
from blueflame.model.memory import MemoryRecord, SessionSummary
from blueflame.model.spend import UNLIMITED, Budget, Unit, to_micro_usd
from blueflame.model.task import Task, TaskState
from blueflame.session.scheduling.ready_queue import ReadyQueue


def plan_batches(tasks: Iterable[Task], slots: int) -> Iterator[tuple[str, ...]]:
    """Yield the tasks batch by batch, as if every task took equally long. Tasks that can never start are left out."""
    queue = ReadyQueue(tasks)
    while batch := queue.pick(slots):
        yield batch
        for state in (TaskState.CLAIMED, TaskState.DONE):
            for name in batch:
                queue.set_state(name, state)


REFERENCE_FIGURES: Mapping[str, AttemptCostRange] = {
    PLANNER: AttemptCostRange(0.20, 0.40),
    WORKER: AttemptCostRange(0.20, 0.75),
    VALIDATOR: AttemptCostRange(0.05, 0.25),
    MERGER: AttemptCostRange(0.20, 0.50),
}
"""Dollars per attempt, used until enough attempts are recorded."""

MIN_ATTEMPTS = 3  # fewer are not representative
MAX_ATTEMPTS = 50  # only the newest: models and prices change

STAGE_ROLES: Mapping[str, str] = {"plan": PLANNER, "work": WORKER, "validate": VALIDATOR, "merge": MERGER}


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedRoleCost:
    role: str
    low: int  # millionths of a dollar
    high: int
    learned_from: int = 0  # recorded attempts; 0 for reference figures


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRange:
    low: int
    high: int
    roles: tuple[EstimatedRoleCost, ...] = ()

    @property
    def text(self) -> str:
        low, high = (UNLIMITED.format_amount(amount) for amount in (self.low, self.high))
        return f"{low} - {high} (base - with retries)"

    @property
    def learned(self) -> bool:
        """Whether any of it is based on recorded attempts."""
        return any(role.learned_from for role in self.roles)

    @property
    def basis(self) -> str:
        """What the figures are based on."""
        learned = [f"{role.role} ({role.learned_from} attempts)" for role in self.roles if role.learned_from]
        if not learned:
            return "by reference figures; nothing is learned yet"
        rest = [role.role for role in self.roles if not role.learned_from]
        by_reference = f"; {', '.join(rest)} by reference figures" if rest else ""
        return f"learned from earlier sessions: {', '.join(learned)}{by_reference}"


def learn_figures(records: Iterable[MemoryRecord]) -> Mapping[str, AttemptCostRange]:
    """Return what recent attempts of each role cost, without the cheapest and the most expensive fifth."""
    sessions = sorted(
        (record for record in records if isinstance(record, SessionSummary)),
        key=lambda record: (record.origin.at, record.key),
    )
    spent: dict[str, list[int]] = {}
    for session in sessions:
        for each in session.spent:
            spent.setdefault(each.role, []).extend(cost for cost in each.attempts if cost > 0)
    return {
        role: _compute_figures(costs[-MAX_ATTEMPTS:])
        for role, costs in sorted(spent.items())
        if len(costs) >= MIN_ATTEMPTS
    }


def _compute_figures(costs: Sequence[int]) -> AttemptCostRange:
    ordered = sorted(costs)
    fifth = len(ordered) // 5
    return AttemptCostRange(ordered[fifth] / 1e6, ordered[-1 - fifth] / 1e6, len(ordered))


def estimate_cost(
    tasks: Iterable[Task],
    limits: Limits,
    workflow: Workflow | None = None,
    figures: Mapping[str, AttemptCostRange] = REFERENCE_FIGURES,
) -> CostRange:
    """Estimate the cost of a plan: from one cheap attempt each to all retries at the high figure, capped by budgets.

    Figures learned from earlier sessions take precedence over those given.
    """
    count = len(tuple(tasks))
    figures = {**figures, **limits.figures}
    stages = (workflow or Workflow()).stages
    roles = tuple(
        _estimate_role_cost(STAGE_ROLES[stage], count, limits, figures) for stage in stages if stage in STAGE_ROLES
    )
    low, high = sum(role.low for role in roles), sum(role.high for role in roles)
    return CostRange(
        low=_cap_amount(low, limits.session_budget), high=_cap_amount(high, limits.session_budget), roles=roles
    )


def _estimate_role_cost(
    role: str, tasks: int, limits: Limits, figures: Mapping[str, AttemptCostRange]
) -> EstimatedRoleCost:
    """Estimate one role: planner and merger run once, a worker and a validator for each task, with retries."""
    attempts = tasks if role in (WORKER, VALIDATOR) else 1
    tries = {WORKER: 1 + limits.max_retries, VALIDATOR: 1 + limits.validator_retries}.get(role, 1)
    figure, budget = figures[role], limits.get_budget(role)
    low, high = (_cap_amount(to_micro_usd(usd), budget) for usd in (figure.low, figure.high))
    return EstimatedRoleCost(role=role, low=attempts * low, high=attempts * tries * high, learned_from=figure.attempts)


def _cap_amount(amount: int, budget: Budget) -> int:
    """Cap an amount by a budget in dollars; one in tokens does not apply, since prices depend on the model."""
    return amount if budget.unlimited or budget.unit is not Unit.USD else min(amount, budget.limit)
