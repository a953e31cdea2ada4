"""Estimates of a plan, shown before an agent is started: batches of tasks, and a range of cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from blueflame.billing.prices import build_listed_rows
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import PLAN_SUBJECT, USUAL_ROLES, Duty
from blueflame.model.limits import AttemptCostRange, Limits
from blueflame.model.memory import MemoryRecord, RoleSpend, SessionSummary
from blueflame.model.spend import UNLIMITED, Budget, Unit, to_micro_usd
from blueflame.model.task import Task, TaskState
from blueflame.model.workflow import Workflow
from blueflame.session.scheduling.ready_queue import ReadyQueue
from blueflame.session.state import Session


def plan_batches(tasks: Iterable[Task], slots: int) -> Iterator[tuple[str, ...]]:
    """Yield the tasks batch by batch, as if every task took equally long. Tasks that can never start are left out."""
    queue = ReadyQueue(tasks)
    while batch := queue.pick(slots):
        yield batch
        for state in (TaskState.CLAIMED, TaskState.DONE):
            for name in batch:
                queue.set_state(name, state)


REFERENCE_FIGURES: Mapping[str, AttemptCostRange] = {
    USUAL_ROLES[Duty.SIZE]: AttemptCostRange(0.01, 0.10),
    USUAL_ROLES[Duty.PLAN]: AttemptCostRange(0.20, 0.40),
    USUAL_ROLES[Duty.MAKE]: AttemptCostRange(0.20, 0.75),
    USUAL_ROLES[Duty.JUDGE]: AttemptCostRange(0.05, 0.25),
    USUAL_ROLES[Duty.MERGE]: AttemptCostRange(0.20, 0.50),
    USUAL_ROLES[Duty.CURATE]: AttemptCostRange(0.05, 0.40),
}
"""Dollars per attempt of a role, or of others with its duty; used until enough attempts are recorded."""

MIN_ATTEMPTS = 3  # fewer are not representative
MAX_ATTEMPTS = 50  # only the newest: models and prices change


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
    """Return what recent attempts of each role cost."""
    found = learn_ranges(records, lambda spent: spent.attempts)
    return {role: AttemptCostRange(low / 1e6, high / 1e6, n) for role, (low, high, n) in found.items()}


def learn_ranges(
    records: Iterable[MemoryRecord], read: Callable[[RoleSpend], Sequence[float]]
) -> Mapping[str, tuple[float, float, int]]:
    """Return the range of a figure of recent attempts of each role, without the lowest and the highest fifth."""
    sessions = sorted(
        (record for record in records if isinstance(record, SessionSummary)),
        key=lambda record: (record.origin.at, record.key),
    )
    figures: dict[str, list[float]] = {}
    for session in sessions:
        for each in session.spent:
            figures.setdefault(each.role, []).extend(figure for figure in read(each) if figure > 0)
    return {
        role: _cut_extremes(sorted(known[-MAX_ATTEMPTS:]))
        for role, known in sorted(figures.items())
        if len(known) >= MIN_ATTEMPTS
    }


def _cut_extremes(ordered: Sequence[float]) -> tuple[float, float, int]:
    fifth = len(ordered) // 5
    return ordered[fifth], ordered[-1 - fifth], len(ordered)


def estimate_cost(
    tasks: Iterable[Task], limits: Limits, workflow: Workflow | None = None, *, is_planned: bool = False
) -> CostRange:
    """Estimate the cost of a plan: from one cheap attempt each to all retries and rungs at the high figure.

    Budgets cap both. Figures learned from earlier sessions take precedence. `is_planned`: a person
    wrote the plan, and no planner is paid.
    """
    figures = {**REFERENCE_FIGURES, **limits.figures}
    shares = share_tasks(tasks, limits, workflow or Workflow())
    roles = tuple(
        _estimate_role_cost(role, duty, share, limits, figures)
        for (role, duty), share in shares.items()
        if not (is_planned and duty is Duty.PLAN)
    )
    low, high = sum(role.low for role in roles), sum(role.high for role in roles)
    return CostRange(
        low=_cap_amount(low, limits.session_budget), high=_cap_amount(high, limits.session_budget), roles=roles
    )


def share_tasks(tasks: Iterable[Task], limits: Limits, workflow: Workflow) -> Mapping[tuple[str, Duty], list[Task]]:
    """Return the roles of the workflows with their duties, each with its tasks: once for each stage that it has."""
    shares: dict[tuple[str, Duty], list[Task]] = {
        (stage.role, stage.duty): [] for stage in workflow.steps if stage.role
    }
    for task in tasks:
        for stage in limits.find_task_workflow(task, workflow).task_stages:
            if stage.role and stage.duty is not Duty.MERGE:
                shares.setdefault((stage.role, stage.duty), []).append(task)
    return shares


def is_planned_by_hand(session: Session) -> bool:
    return (PLAN_SUBJECT, session.workflow.find_role(Duty.PLAN)) not in session.attempts_on


def _estimate_role_cost(
    role: str, duty: Duty, tasks: Sequence[Task], limits: Limits, figures: Mapping[str, AttemptCostRange]
) -> EstimatedRoleCost:
    """Estimate one role: triager, planner and merger run once, who makes and who judges for each task, with retries."""
    tries = {Duty.MAKE: 1 + limits.max_retries, Duty.JUDGE: 1 + limits.validator_retries}.get(duty, 1)
    figure, budget = figures.get(role) or figures[USUAL_ROLES[duty]], limits.get_budget(role)
    low = high = 0
    usual = limits.get_model(role)
    rungs = [_compare_prices(rung.model or usual, usual) for rung in limits.ladder] if duty is Duty.MAKE else []
    for factor in _list_price_factors(role, duty, tasks, limits):
        low += _cap_amount(to_micro_usd(figure.low * factor), budget)
        high += tries * _cap_amount(to_micro_usd(figure.high * factor), budget)
        high += sum(_cap_amount(to_micro_usd(figure.high * rung), budget) for rung in rungs)
    return EstimatedRoleCost(role=role, low=low, high=high, learned_from=figure.attempts)


def _list_price_factors(role: str, duty: Duty, tasks: Sequence[Task], limits: Limits) -> list[float]:
    """For each attempt, how much dearer its model is than that of its role: a task may name its own."""
    if duty not in (Duty.MAKE, Duty.JUDGE):
        return [1.0]
    usual = limits.get_model(role)
    return [_compare_prices(find_model(task, role, duty, limits), usual) for task in tasks]


def find_model(task: Task, role: str, duty: Duty, limits: Limits) -> str:
    """Return the model of an attempt at a task: what the plan chose, else of the group's reviews, else of the role."""
    by_group = limits.group_validator_models.get(task.cohesion_group)
    chosen = task.model if duty is Duty.MAKE else task.validator_model or by_group
    return chosen or limits.get_model(role)


def _find_output_price(model: str) -> int:
    """A short name, such as opus, is the newest model of its family, which the table lists first; 0 if unknown."""
    rows = build_listed_rows()
    return next((row.output for row in rows if row.matches(model) or row.model.startswith(f"*claude-{model}-")), 0)


def _compare_prices(model: str, usual: str) -> float:
    """1 for models whose price is not known: then nothing is known about the difference."""
    prices = [_find_output_price(name) for name in (model, usual)]
    return prices[0] / prices[1] if model != usual and all(prices) else 1.0


def _cap_amount(amount: int, budget: Budget) -> int:
    """Cap an amount by a budget in dollars; one in tokens does not apply, since prices depend on the model."""
    return amount if budget.unlimited or budget.unit is not Unit.USD else min(amount, budget.limit)
