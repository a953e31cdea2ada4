"""Budgets are reserved before they are spent: what a new attempt may cost, and when a budget is used up.

An attempt has its role's budget, and ceilings: what the budgets of its task, the session and the day leave to it. Each
is in its own unit, and what an attempt may use is reserved in every shared budget of that unit until it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.limits import Capacity
from blueflame.model.spend import NO_SPEND, Budget, Ceiling, Spend, Unit
from blueflame.session.state import Session

TASK, SESSION, DAY = "task", "session", "day"
MIN_SHARE_DIVISOR = 20
"""A shared budget is split into parts of at least a twentieth: with less an agent can do nothing useful."""


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """A shared budget has nothing left for another attempt. `final` when no running attempt can free any of it."""

    final: bool
    by: str = SESSION  # whose budget is used up: task | session | day


@dataclass(frozen=True, slots=True)
class BudgetGrant:
    budget: Budget
    ceilings: tuple[Ceiling, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedBudget:
    """A budget that several attempts use, and how much of it is neither spent nor reserved."""

    name: str
    budget: Budget
    left: int


def grant_budget(session: Session, role: str, subject: str, capacity: Capacity) -> BudgetGrant | BudgetRefusal:
    """Grant the role's budget, with a ceiling for each shared budget that leaves less than that."""
    shared_budgets = tuple(list_shared_budgets(session, subject, capacity))
    empty = [shared.name for shared in shared_budgets if shared.left <= 0]
    if empty:
        # a person can raise the session's and the day's, so those are named first
        by = min(empty, key=lambda name: name == TASK)
        return BudgetRefusal(final=by == TASK or not session.live, by=by)
    own = session.limits.get_budget(role)
    granted = BudgetGrant(own)
    for shared in shared_budgets:
        unit = shared.budget.unit
        share = _limit_share(shared, own, lambda: _count_competitors(session, role, capacity))
        lowest = _find_lowest_limit(granted.budget, granted.ceilings, unit)
        if lowest is None or share < lowest:
            granted = replace(granted, ceilings=(*granted.ceilings, Ceiling(shared.name, Budget(unit, share))))
    return granted


def list_shared_budgets(session: Session, subject: str, capacity: Capacity) -> Iterator[SharedBudget]:
    """List the shared budgets that have a limit."""
    limits = session.limits
    if subject in session.tasks and not limits.task_budget.unlimited:
        reserved = sum((compute_reservation(a) for a in session.live.values() if a.subject == subject), NO_SPEND)
        yield _build_shared_budget(TASK, limits.task_budget, session.spend_by_subject.get(subject, NO_SPEND), reserved)
    if not limits.session_budget.unlimited:
        yield _build_shared_budget(SESSION, limits.session_budget, session.spend, session.reserved)
    if not (day := find_day_budget(session, capacity)).unlimited:
        yield _build_shared_budget(DAY, day, capacity.day_spend, session.reserved)


def _build_shared_budget(name: str, budget: Budget, spend: Spend, reserved: Spend) -> SharedBudget:
    return SharedBudget(name, budget, budget.limit - budget.measure(spend) - budget.measure(reserved))


def find_day_budget(session: Session, capacity: Capacity) -> Budget:
    """Return the day's budget: as configured, or as a person raised it for this day."""
    if session.day_raised is not None and session.day_raised[0] == capacity.day:
        return Budget(session.limits.day_budget.unit, session.day_raised[1])
    return session.limits.day_budget


def _limit_share(shared: SharedBudget, own: Budget, count_competitors: Callable[[], int]) -> int:
    """Return how much of a shared budget an attempt may use.

    An attempt with its own budget in the same unit uses no more than that, so it may have all that is left. One without
    could use up everything, so what is left is divided among the attempts that could start now.
    """
    if shared.name == TASK or (not own.unlimited and own.unit is shared.budget.unit):
        return shared.left
    return min(shared.left, max(shared.left // count_competitors(), shared.budget.limit // MIN_SHARE_DIVISOR, 1))


def _count_competitors(session: Session, role: str, capacity: Capacity) -> int:
    """Count the attempts of the role that could start now, including the one in question."""
    duty = session.find_duty(role)
    if duty is Duty.MAKE:
        free = max(min(session.limits.workers, capacity.agents) - session.count_running(Duty.MAKE), 1)
        return max(1, min(free, len(session.to_continue) + len(session.queue.pick(free))))
    if duty is Duty.JUDGE:
        return max(1, min(session.limits.validators - session.count_running(Duty.JUDGE), len(session.to_review)))
    return 1


def _find_lowest_limit(budget: Budget, ceilings: tuple[Ceiling, ...], unit: Unit) -> int | None:
    budgets = (budget, *(ceiling.budget for ceiling in ceilings))
    return min((each.limit for each in budgets if each.unit is unit and not each.unlimited), default=None)


def compute_reservation(attempt: Attempt) -> Spend:
    """Compute the most that an attempt may use, in each unit in which it has a limit."""
    dollars, tokens = (
        _find_lowest_limit(attempt.budget, attempt.ceilings, unit) or 0 for unit in (Unit.USD, Unit.TOKENS)
    )
    return Spend(micro_usd=dollars, input_tokens=tokens)


def find_exhausted_budget(session: Session, capacity: Capacity) -> str:
    """Return which budget is used up, the session's or the day's; empty while neither is."""
    if _is_near_limit(session.limits.session_budget, session.spend):
        return SESSION
    return DAY if _is_near_limit(find_day_budget(session, capacity), capacity.day_spend) else ""


def is_task_budget_exhausted(session: Session, task: str, more: Spend = NO_SPEND) -> bool:
    """Whether a task has used up its budget. `more`: what its last attempt used, if that is not counted yet."""
    return _is_near_limit(session.limits.task_budget, session.spend_by_subject.get(task, NO_SPEND) + more)


def describe_task_budget(session: Session, task: str, more: Spend = NO_SPEND) -> str:
    used = session.spend_by_subject.get(task, NO_SPEND) + more
    return f"the task's budget is used up: {format_budget_use(session.limits.task_budget, used)}"


def is_stopped_by_shared_budget(attempt: Attempt, ended: AttemptOutcome) -> bool:
    """Whether an attempt had to stop because the session or the day had no more for it: its work is not to blame.

    Only if it used at least half of its ceiling (the settled price may be lower than the metered one): so every
    further attempt uses up more of the shared budget, and they come to an end.
    """
    if ended.ending is not Ending.BUDGET or ended.cause not in (SESSION, DAY):
        return False
    ceilings = (each.budget for each in attempt.ceilings if each.name == ended.cause)
    return any(2 * budget.measure(ended.spend) >= budget.limit for budget in ceilings)


def should_warn_of_session_budget(session: Session) -> bool:
    budget = session.limits.session_budget
    return not session.budget_warned and _is_near_limit(budget, session.spend, session.limits.warn_threshold)


def should_warn_of_day_budget(session: Session, capacity: Capacity) -> bool:
    budget, threshold = find_day_budget(session, capacity), session.limits.warn_threshold
    warned = session.day_warned == (capacity.day, budget.limit)
    return not warned and _is_near_limit(budget, capacity.day_spend, threshold)


def _is_near_limit(budget: Budget, spend: Spend, threshold: float = 1) -> bool:
    return not budget.unlimited and budget.measure(spend) >= budget.limit * threshold


def find_nearest_limit(attempt: Attempt, spend: Spend, threshold: float) -> Ceiling | None:
    """Return the limit that an attempt has used most of, if that is at least `threshold`."""
    own = (Ceiling("attempt", attempt.budget), *attempt.ceilings)
    near = [each for each in own if _is_near_limit(each.budget, spend, threshold)]
    return max(near, key=lambda each: each.budget.measure(spend) / each.budget.limit, default=None)


def format_session_budget(session: Session) -> str:
    """`$0.42 / $10.00`"""
    return format_budget_use(session.limits.session_budget, session.spend)


def format_budget_use(budget: Budget, spend: Spend) -> str:
    used = budget.format_amount(budget.measure(spend))
    return f"{used} / {'no limit' if budget.unlimited else budget.format_amount(budget.limit)}"
