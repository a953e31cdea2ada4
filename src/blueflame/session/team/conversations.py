"""Whether a seat continues its conversation with its next task, or begins without it.

A conversation goes on only where what it is about is there: the same domain, by the same model, after work that passed
and that the next task starts from. It ends when its budget is used up; of two seats, one after the other.
Reviewers have none: they judge without what others had in mind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from blueflame.model.attempt import AttemptRecord, Ending
from blueflame.model.ids import build_attempt_id
from blueflame.model.seat import Allocation, ContextBudget
from blueflame.model.task import Assignment, TaskCommit, TaskState
from blueflame.session.state import Session


def choose_conversation(
    session: Session, given: Allocation, who: Assignment, subject: str, built_on: Collection[TaskCommit]
) -> Allocation:
    """Choose whether the first attempt of a seat at a task that makes continues what the seat did before."""
    budget, last = session.limits.context_budget, session.attempts.get(session.last_of_seat.get(given.seat, ""))
    if budget is None or last is None or last.attempt.subject == subject:
        return given
    if last.ended is None or not last.ended.context_tokens:
        return given
    if why := _find_obstacle(session, last, given, who, built_on):
        return replace(given, reset=why)
    tasks = {record.attempt.subject for record in list_conversation(session, last)}
    spent = _find_spent_budget(session, last, budget)
    if spent and not _is_other_resetting(session, given.seat):
        return replace(given, reset=spent, is_budget_reset=True)
    return replace(given, continues=last.attempt.id, is_last=bool(spent) or len(tasks) + 1 >= budget.tasks)


def _find_obstacle(
    session: Session, last: AttemptRecord, given: Allocation, who: Assignment, built_on: Collection[TaskCommit]
) -> str:
    """Say why the conversation would mislead; empty if it would not."""
    attempt, before = last.attempt, last.attempt.allocation
    task = session.tasks.get(attempt.subject)
    if last.ended is None or last.ended.ending is not Ending.PASSED or last.ended.violations:
        return f"its work on {attempt.subject} did not pass"
    if before is None or before.domain != given.domain:
        return f"the task is in another domain, {given.domain}"
    if (attempt.runtime, attempt.model) != (who.runtime, who.model):
        return "the task is made by another model"
    landed = task is not None and task.state is TaskState.MERGED and attempt.subject not in session.proposed
    if not landed and attempt.subject not in {each.task for each in built_on}:
        return f"the task does not start from what it made for {attempt.subject}"
    return ""


def _find_spent_budget(session: Session, last: AttemptRecord, budget: ContextBudget) -> str:
    """Say which part of its budget a conversation has used up; empty if none."""
    records = tuple(list_conversation(session, last))
    tasks, age = len({record.attempt.subject for record in records}), session.last_at - records[-1].intended_at
    tokens = last.ended.context_tokens if last.ended else 0
    if tasks >= budget.tasks:
        return f"it has had {tasks} task{'s' if tasks > 1 else ''}"
    if tokens >= budget.tokens:
        return f"it has {tokens:,} tokens"
    return f"it is {age / 60:.0f} minutes old" if age >= budget.seconds else ""


def measure_conversation(session: Session, seat: str) -> tuple[int, int]:
    """Return the tasks and tokens of a seat's present conversation; zeros if it has none that can be continued."""
    last = session.attempts.get(session.last_of_seat.get(seat, ""))
    if session.ended or session.limits.context_budget is None or last is None:
        return 0, 0
    records = tuple(list_conversation(session, last))
    tokens = next((each.ended.context_tokens for each in records if each.ended is not None), 0)
    return (len({each.attempt.subject for each in records}), tokens) if tokens else (0, 0)


def list_conversation(session: Session, newest: AttemptRecord) -> Iterator[AttemptRecord]:
    """List the attempts of a conversation, from the newest to the first."""
    record: AttemptRecord | None = newest
    while record is not None:
        yield record
        attempt = record.attempt
        before = build_attempt_id(session.id, attempt.subject, attempt.label, attempt.n - 1)
        continued = attempt.allocation.continues if attempt.allocation else ""
        record = session.attempts.get(continued or before)


def _is_other_resetting(session: Session, seat: str) -> bool:
    """Whether another seat works without the conversation that it had: not all are to begin without one at once."""
    allocations = (attempt.allocation for attempt in session.live.values() if attempt.seat != seat)
    return any(each is not None and each.is_budget_reset for each in allocations)
