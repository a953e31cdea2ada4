"""What follows when an attempt fails, stalls or is sent back: retries, history, and which tasks a new cycle starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from blueflame.checks.postcheck import is_worded_wrongly
from blueflame.model.attempt import BLAMELESS, Attempt, AttemptOutcome, Continuation, Ending
from blueflame.model.event import BackoffEnded, Event, TaskMoved
from blueflame.model.gate import GateKind
from blueflame.model.ids import build_attempt_id
from blueflame.model.spend import NO_SPEND
from blueflame.model.task import Assignment, Cause, HistoryEntry, HistoryResult, TaskRecord, TaskState
from blueflame.model.verdict import VerdictStatus
from blueflame.session.budget import is_stopped_by_shared_budget
from blueflame.session.cascade import (
    WILL_NOT_FINISH,
    defer_tasks_built_on,
    find_dependants,
    find_failed_dependency,
    find_reachable,
)
from blueflame.session.foundations import are_foundations_valid
from blueflame.session.next_try import is_at_ceiling
from blueflame.session.state import Session, find_making_stage

MAX_NOTE_CHARS = 2_000
MAX_CUT_CHARS = 40  # of the line that says what was cut
KILL = "kill"
WARDEN_FIRST = 2.0  # seconds: the warden ends a silent agent; the orchestrator acts only if it did not


def is_blameless(attempt: Attempt, ended: AttemptOutcome) -> bool:
    """Whether the ending says nothing about the work.

    There is no limit on them: each outage parks the runtime for longer (session/rate_limits), attempts that are lost
    again and again wait longer each time (session/environment), and after some of either a person is asked.
    """
    return ended.ending in BLAMELESS or is_stopped_by_shared_budget(attempt, ended)


def is_stall_due(session: Session, attempt: str, *, silent_for: float, timeout: float, now: float) -> bool:
    """Whether the silence of an attempt is to be reported: once, or again when a person chose to wait."""
    record, policy = session.attempts[attempt], session.limits.on_stall
    allowed = timeout + WARDEN_FIRST if policy == KILL else timeout
    if silent_for < allowed or record.cancel_reason or session.stopping:
        return False
    reported_at = record.stalled_at
    if reported_at is None or reported_at < now - silent_for:
        return True
    asking = session.is_asking(GateKind.STALL, record.attempt.subject)
    return policy == "ask" and not asking and now - reported_at >= timeout


STARTS_OVER_AFTER = frozenset({Ending.POSTCHECK, Ending.UNWATCHED})
"""Endings after which nothing of the checkout is used again, like any ending with violations."""


def must_start_over(ended: AttemptOutcome) -> bool:
    """Whether nothing of an attempt is used again. Commits of which only the first line is wrong are good work."""
    if ended.ending is Ending.POSTCHECK and ended.violations:
        return not is_worded_wrongly(ended.violations)
    return bool(ended.violations) or ended.ending in STARTS_OVER_AFTER


def find_continuation(session: Session, task: str) -> Continuation | None:
    """Return the earlier work that the next attempt at a task continues; None when it starts from its base."""
    record = session.find_last_work(task)
    ended = record.ended if record is not None else None
    if session.tasks[task].scratch or record is None or ended is None or must_start_over(ended):
        return None
    if session.limits.retry_from != "continue" and ended.ending is not Ending.QUESTION:  # which ends no work
        return None
    base = ended.base or record.base
    stage = find_making_stage(session, session.tasks[task])
    if stage and record.attempt.stage != stage:
        return None  # an earlier stage made it: it is what this one starts from
    if not stage and record.attempt.stage:
        base = _find_first_base(session, task)  # it starts again: all stages before made the work
    if base is None or not (ended.unfinished or ended.tip):
        return record.attempt.continues  # it left nothing: what it continued itself is still the newest
    return Continuation(attempt=record.attempt.id, base=base, tip=ended.tip or base, unfinished=ended.unfinished)


def _find_first_base(session: Session, task: str) -> str | None:
    """Return the commit that the newest attempt at the first stage of a task started from."""
    key = session.find_workflow(session.tasks[task].task).task_stages[0].key
    first = session.attempts.get(build_attempt_id(session.id, task, key, session.attempts_on.get((task, key), 0)))
    return first.base if first is not None else None


def build_history_entry(
    session: Session,
    record: TaskRecord,
    result: HistoryResult,
    at: float,
    *,
    notes: str = "",
    rejection_reason: str = "",
) -> HistoryEntry:
    """Build the history entry for the task's current attempt, with what it cost."""
    attempt = session.find_last_work(record.task.id)
    spend = attempt.ended.spend if attempt is not None and attempt.ended is not None else NO_SPEND
    return HistoryEntry(
        attempt=record.attempts,
        agent_id=record.agent_id or "",
        at=at,
        result=result,
        notes=notes,
        rejection_reason=rejection_reason,
        cost_usd=spend.usd,
        tokens_used=spend.tokens,
    )


def limit_history(history: tuple[HistoryEntry, ...], most: int) -> tuple[HistoryEntry, ...]:
    """Return the newest entries, with notes short enough for a prompt."""
    kept = history[-most:] if most > 0 else ()
    return tuple(
        replace(entry, notes=truncate_text(entry.notes), rejection_reason=truncate_text(entry.rejection_reason))
        for entry in kept
    )


def truncate_text(text: str, most: int = MAX_NOTE_CHARS) -> str:
    """Cut the middle out: a person's note begins with what matters, the output of a check ends with it."""
    if len(text) <= most:
        return text
    left = max(most - MAX_CUT_CHARS, 0)
    start, end = text[: left // 4], text[len(text) - (left - left // 4) :]
    return f"{start}\n… [{len(text) - left} characters cut] …\n{end}"


def requeue_with_history(
    session: Session, name: str, result: HistoryResult, now: float, reason: str, **entry: str
) -> TaskMoved:
    """Send the work of a task back to its first stage; its next attempt reads why, by default the reason."""
    history = build_history_entry(session, session.tasks[name], result, now, **(entry or {"notes": reason}))
    return TaskMoved(task=name, cause=Cause.REQUEUE, reason=reason, history=history)


def send_task_back(
    session: Session, record: TaskRecord, notes: str, now: float, *, scratch: bool = False
) -> Iterator[Event]:
    """Requeue a task that did not pass validation, and defer the work that was built on it."""
    name, why = record.task.id, "validation failed"
    moved = requeue_with_history(session, name, HistoryResult.VALIDATION_FAILED, now, why, notes=notes)
    yield replace(moved, scratch=scratch, stage=find_making_stage(session, record))
    yield from defer_tasks_built_on(session, (name,), f"{name} is being redone")


def requeue_tasks(session: Session, now: float) -> Iterator[Event]:
    """Start every unfinished task again, except those at their ceiling or whose dependency a person has dropped."""
    without_dependency, spent = _find_without_dependency(session), list_spent(session)
    for name in session.list_in_state(TaskState.REQUEUED, TaskState.FAILED):
        if name not in spent:
            yield from _renew_task(name, without_dependency, counts=_climbs(session, session.tasks[name]))
    still = without_dependency | frozenset(find_dependants(session, spent))
    for name in session.list_in_state(TaskState.BLOCKED):
        if name not in still:
            yield TaskMoved(task=name, cause=Cause.UNBLOCK, keeps_retries=True)
    yield from present_deferred(session, now)


def list_spent(session: Session) -> tuple[str, ...]:
    """Return the tasks that have had all attempts they may have in the session: a new cycle does not start them."""
    names = session.list_in_state(TaskState.REQUEUED, TaskState.FAILED)
    return tuple(name for name in names if is_at_ceiling(session.limits, session.tasks[name]))


def _climbs(session: Session, record: TaskRecord) -> bool:
    """Whether starting again brings a task nearer to its ladder: its last result did not pass validation."""
    refused = bool(record.history) and record.history[-1].result is HistoryResult.VALIDATION_FAILED
    return bool(session.limits.find_task_limits(record.task).ladder) and refused and record.state is TaskState.REQUEUED


def _renew_task(name: str, without_dependency: frozenset[str], *, counts: bool = False) -> Iterator[Event]:
    yield TaskMoved(task=name, cause=Cause.RENEW, keeps_retries=True, counts=counts)
    if name in without_dependency:
        yield TaskMoved(task=name, cause=Cause.BLOCK, reason="a dependency was dropped")


def _find_without_dependency(session: Session) -> frozenset[str]:
    return frozenset(find_dependants(session, session.states[TaskState.DROPPED]))


def retry_task(
    session: Session, name: str, note: str, at: float, *, once: bool = False, assigned: Assignment | None = None
) -> Iterator[Event]:
    """Start a failed or re-queued task again, and unblock what only waited for it. `once`: without new retries."""
    if name in session.waiting:
        yield BackoffEnded(task=name, by="a person")
        return
    entry = build_history_entry(session, session.tasks[name], HistoryResult.FAILED, at, notes=note) if note else None
    reason = f"given to {assigned} by a person" if assigned else "retried by a person"
    yield TaskMoved(
        task=name,
        cause=Cause.RENEW,
        reason=reason,
        history=entry,
        keeps_retries=once,
        assigned=assigned,
        granted=True,
    )
    if why := find_failed_dependency(session, name):
        yield TaskMoved(task=name, cause=Cause.BLOCK, reason=why)
        return
    freed = {name}
    waiting = [each for each in find_dependants(session, [name]) if session.tasks[each].state is TaskState.BLOCKED]
    while ready := [each for each in waiting if each not in freed and _is_free(session, each, freed)]:
        freed |= set(ready)
        yield from (TaskMoved(task=each, cause=Cause.UNBLOCK, keeps_retries=once) for each in ready)


def _is_free(session: Session, name: str, freed: set[str]) -> bool:
    needs = (need for need in session.tasks[name].task.dependencies if need in session.tasks and need not in freed)
    return not any(session.tasks[need].state in WILL_NOT_FINISH for need in needs)


def present_deferred(session: Session, now: float) -> Iterator[Event]:
    """Show deferred work again if what it was built on is still valid; otherwise start it again."""
    without_dependency = _find_without_dependency(session)
    deferred = session.list_in_state(TaskState.DEFERRED)
    outdated = [name for name in deferred if _is_outdated(session, session.tasks[name])]
    stale = {*outdated, *find_reachable(outdated, lambda name: session.built_upon.get(name, ()))}
    for name in deferred:
        record = session.tasks[name]
        if name in stale:
            notes = f"{record.reason}; what it was built on is being redone, so it starts again from there"
            failed = record.verdict == VerdictStatus.FAIL  # whatever became of what it was built on
            result = HistoryResult.VALIDATION_FAILED if failed else HistoryResult.STALE
            why = record.verdict_notes if failed else notes
            yield requeue_with_history(session, name, result, now, notes, notes=why)
            yield from _renew_task(name, without_dependency)
        else:
            yield TaskMoved(task=name, cause=Cause.PRESENT)
            if record.verdict == VerdictStatus.PASS:
                yield TaskMoved(task=name, cause=Cause.VALIDATE)


def _is_outdated(session: Session, record: TaskRecord) -> bool:
    """Whether deferred work got a verdict of fail meanwhile, or was built on a result that is no longer current."""
    assert record.result is not None, f"{record.task.id} is deferred without a result"
    built_on = record.result.built_on
    return record.verdict == VerdictStatus.FAIL or not are_foundations_valid(session, built_on, or_deferred=True)
