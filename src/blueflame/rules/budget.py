"""Money is reserved before it is spent: what a new attempt may cost, and when the breaker opens."""

from __future__ import annotations

from dataclasses import dataclass

from blueflame.model.spend import Budget
from blueflame.rules.session import Session


@dataclass(frozen=True, slots=True)
class Refusal:
    """No room for another attempt now. `final` when no running attempt can give any back."""

    final: bool


def left(session: Session) -> int | None:
    """What the session may still promise, or None when it has no limit."""
    budget = session.limits.session_budget
    if budget.unlimited:
        return None
    return budget.limit - budget.used(session.spend) - budget.used(session.reserved)


def grant(session: Session, role: str) -> Budget | Refusal:
    """The budget for a new attempt: the role's own, cut to what the session has left."""
    own, room = session.limits.budget(role), left(session)
    if room is None:
        return own
    if room <= 0:
        return Refusal(final=not session.live)
    if own.unlimited or own.unit is not session.limits.session_budget.unit:
        return own
    return Budget(own.unit, min(own.limit, room))


def spent_out(session: Session) -> bool:
    """The circuit breaker: the session has used its limit up."""
    budget = session.limits.session_budget
    return not budget.unlimited and budget.used(session.spend) >= budget.limit


def should_warn(session: Session) -> bool:
    budget = session.limits.session_budget
    if budget.unlimited or session.budget_warned:
        return False
    return budget.used(session.spend) >= budget.limit * session.limits.warn_threshold


def meter(session: Session) -> str:
    """`$0.42 / $10.00`, as people see it."""
    budget = session.limits.session_budget
    used = budget.show(budget.used(session.spend))
    return f"{used} / {'no limit' if budget.unlimited else budget.show(budget.limit)}"
