"""Money is reserved before it is spent: what a new attempt may cost, and when the breaker opens.

An attempt has a budget of its own (its role's) and ceilings: what its task, the session and the day leave to it. Each
is in its own unit, and what is promised in a unit is taken from every pot of that unit until the attempt has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from blueflame.model.attempt import VALIDATOR, WORKER, Attempt, AttemptOutcome, Ending
from blueflame.model.limits import Capacity
from blueflame.model.spend import NO_SPEND, Budget, Ceiling, Spend, Unit
from blueflame.session.state import Session

TASK, SESSION, DAY = "task", "session", "day"
MIN_SHARE_DIVISOR = 20
"""A pot is shared in parts of no less than a twentieth of its whole: an agent can do nothing with crumbs."""


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """No room for another attempt now. `final` when no running attempt can give any back."""

    final: bool
    by: str = SESSION  # whose budget is used up: task | session | day


@dataclass(frozen=True, slots=True)
class BudgetGrant:
    budget: Budget
    ceilings: tuple[Ceiling, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedBudget:
    """A budget that several attempts draw from, and what may still be promised of it."""

    name: str
    budget: Budget
    left: int


def grant_budget(session: Session, role: str, subject: str, capacity: Capacity) -> BudgetGrant | BudgetRefusal:
    """The role's own budget, and a ceiling for each pot that leaves less than that."""
    found = tuple(list_shared_budgets(session, subject, capacity))
    empty = next((pot.name for pot in sorted(found, key=_is_task_budget) if pot.left <= 0), None)
    if empty is not None:
        return BudgetRefusal(final=empty == TASK or not session.live, by=empty)
    own = session.limits.get_budget(role)
    granted = BudgetGrant(own)
    for pot in found:
        part = _limit_share(pot, own, lambda: _count_competitors(session, role, capacity))
        if part < _find_lowest_limit(granted, pot.budget.unit):
            granted = replace(granted, ceilings=(*granted.ceilings, Ceiling(pot.name, Budget(pot.budget.unit, part))))
    return granted


def list_shared_budgets(session: Session, subject: str, capacity: Capacity) -> Iterator[SharedBudget]:
    """Those that have a limit."""
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


def _is_task_budget(pot: SharedBudget) -> bool:
    """A person can fill the session's and the day's; a task whose own is empty has failed."""
    return pot.name == TASK


def find_day_budget(session: Session, capacity: Capacity) -> Budget:
    """As configured, or as a person raised it for this very day."""
    if session.day_raised is not None and session.day_raised[0] == capacity.day:
        return Budget(session.limits.day_budget.unit, session.day_raised[1])
    return session.limits.day_budget


def _limit_share(pot: SharedBudget, own: Budget, rivals: Callable[[], int]) -> int:
    """Whoever has a budget in the pot's unit takes no more than that, so all that is left may be theirs.

    Whoever has none could use up everything: they share what is left with all who could start beside them now. So
    the first does not take all and leave the others idle, and one that is alone is not cut short for nobody's sake.
    """
    if pot.name == TASK or (not own.unlimited and own.unit is pot.budget.unit):
        return pot.left
    return min(pot.left, max(pot.left // rivals(), pot.budget.limit // MIN_SHARE_DIVISOR, 1))


def _count_competitors(session: Session, role: str, capacity: Capacity) -> int:
    """How many attempts of the role could start now, the one in question among them."""
    if role == WORKER:
        free = min(session.limits.workers, capacity.agents) - session.count_running(WORKER)
        return max(1, len(session.queue.pick(max(free, 1))))
    if role == VALIDATOR:
        return max(1, min(session.limits.validators - session.count_running(VALIDATOR), len(session.to_review)))
    return 1


def _find_lowest_limit(granted: BudgetGrant, unit: Unit) -> float:
    limits = [each.limit for each in _list_limited(granted.budget, granted.ceilings) if each.unit is unit]
    return min(limits, default=float("inf"))


def _list_limited(budget: Budget, ceilings: tuple[Ceiling, ...]) -> Iterator[Budget]:
    return (each for each in (budget, *(ceiling.budget for ceiling in ceilings)) if not each.unlimited)


def compute_reservation(attempt: Attempt) -> Spend:
    """What it may use at most, in each unit that it has a limit in."""
    dollars, tokens = (
        min((each.limit for each in _list_limited(attempt.budget, attempt.ceilings) if each.unit is unit), default=0)
        for unit in (Unit.USD, Unit.TOKENS)
    )
    return Spend(micro_usd=dollars, input_tokens=tokens)


def find_session_remainder(session: Session) -> int | None:
    """What the session may still promise, or None when it has no limit."""
    return next((pot.left for pot in list_shared_budgets(session, "", Capacity(agents=1)) if pot.name == SESSION), None)


def find_exhausted_budget(session: Session, capacity: Capacity) -> str:
    """The circuit breaker: whose limit is used up, the session's or the day's; empty while neither is."""
    spends = (
        (SESSION, session.limits.session_budget, session.spend),
        (DAY, *_find_day_budget_and_spend(session, capacity)),
    )
    full = (name for name, budget, spend in spends if not budget.unlimited and budget.measure(spend) >= budget.limit)
    return next(full, "")


def _find_day_budget_and_spend(session: Session, capacity: Capacity) -> tuple[Budget, Spend]:
    return find_day_budget(session, capacity), capacity.day_spend


def is_task_budget_exhausted(session: Session, task: str, more: Spend = NO_SPEND) -> bool:
    """Has it used up what all attempts at it may cost? `more` is what the last one used, if it is not counted yet."""
    budget = session.limits.task_budget
    return not budget.unlimited and budget.measure(session.spend_by_subject.get(task, NO_SPEND) + more) >= budget.limit


def describe_task_budget(session: Session, task: str, more: Spend = NO_SPEND) -> str:
    budget = session.limits.task_budget
    used = budget.measure(session.spend_by_subject.get(task, NO_SPEND) + more)
    return f"the task's budget is used up: {budget.format_amount(used)} / {budget.format_amount(budget.limit)}"


def is_stopped_by_shared_budget(attempt: Attempt, ended: AttemptOutcome) -> bool:
    """It had to stop because the session or the day had no more for it: that says nothing about its work.

    Only if it has really used that, or most of it (its price may be settled lower than it was metered): so that
    whoever is tried again has brought the end of the pot nearer.
    """
    if ended.ending is not Ending.BUDGET or ended.cause not in (SESSION, DAY):
        return False
    ceilings = (each.budget for each in attempt.ceilings if each.name == ended.cause)
    return any(2 * budget.measure(ended.spend) >= budget.limit for budget in ceilings)


def should_warn_of_session_budget(session: Session) -> bool:
    budget = session.limits.session_budget
    return not session.budget_warned and _is_near_limit(budget, session.spend, session.limits.warn_threshold)


def should_warn_of_day_budget(session: Session, capacity: Capacity) -> bool:
    budget, spend = _find_day_budget_and_spend(session, capacity)
    return session.day_warned != (capacity.day, budget.limit) and _is_near_limit(
        budget, spend, session.limits.warn_threshold
    )


def _is_near_limit(budget: Budget, spend: Spend, threshold: float) -> bool:
    return not budget.unlimited and budget.measure(spend) >= budget.limit * threshold


def find_nearest_limit(attempt: Attempt, spend: Spend, threshold: float) -> Ceiling | None:
    """Which of its limits an attempt has nearly reached; of several the one that it is nearest to."""
    own = (Ceiling("attempt", attempt.budget), *attempt.ceilings)
    near = [each for each in own if _is_near_limit(each.budget, spend, threshold)]
    return max(near, key=lambda each: each.budget.measure(spend) / each.budget.limit, default=None)


def format_session_budget(session: Session) -> str:
    """`$0.42 / $10.00`, as people see it."""
    return format_budget_use(session.limits.session_budget, session.spend)


def format_budget_use(budget: Budget, spend: Spend) -> str:
    used = budget.format_amount(budget.measure(spend))
    return f"{used} / {'no limit' if budget.unlimited else budget.format_amount(budget.limit)}"
