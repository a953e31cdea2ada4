"""What follows when an attempt fails, stalls or is sent back: retries, history, and what a new cycle takes up again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.event import Event, TaskMoved
from blueflame.model.gate import GateKind
from blueflame.model.limits import Limits
from blueflame.model.task import (
    VERIFIED_NOT_LANDED,
    Cause,
    HistoryEntry,
    HistoryResult,
    TaskCommit,
    TaskRecord,
    TaskState,
)
from blueflame.model.verdict import VerdictStatus
from blueflame.session.budget import is_stopped_by_shared_budget
from blueflame.session.cascade import find_dependants, find_reachable
from blueflame.session.state import Session

MAX_NOTE_CHARS = 2_000
MAX_LOSSES = 3
"""An attempt that vanishes is tried again without blame, but what always vanishes has failed."""
KILL = "kill"
WARDEN_FIRST = 2.0  # seconds: where silence is to be ended, its warden ends it; ours is the second look


def is_blameless(attempt: Attempt, ended: AttemptOutcome, losses: int) -> bool:
    """Does the ending say nothing about the work? `losses` is how many attempts at it had vanished before.

    There is no limit on outages: each parks the runtime for longer, and after some a person is asked
    (session/rate_limits).
    """
    if ended.ending is Ending.LOST:
        return losses < MAX_LOSSES
    return ended.ending in (Ending.CANCELLED, Ending.OUTAGE) or is_stopped_by_shared_budget(attempt, ended)


def may_retry(record: TaskRecord, limits: Limits) -> bool:
    return record.retries < limits.max_retries


def is_stall_due(session: Session, attempt: str, *, silent_for: float, timeout: float, now: float) -> bool:
    record, policy = session.attempts[attempt], session.limits.on_stall
    allowed = timeout + WARDEN_FIRST if policy == KILL else timeout
    if silent_for < allowed or record.cancel_reason or session.stopping:
        return False
    told_at = record.stalled_at
    if told_at is None or told_at < now - silent_for:
        return True
    asking = session.is_asking(GateKind.STALL, record.attempt.subject)
    return policy == "ask" and not asking and now - told_at >= timeout


def build_history_entry(
    record: TaskRecord, result: HistoryResult, at: float, *, notes: str = "", rejection_reason: str = ""
) -> HistoryEntry:
    """What is remembered of the task's present attempt."""
    return HistoryEntry(
        attempt=record.attempts,
        agent_id=record.agent_id or "",
        at=at,
        result=result,
        notes=notes,
        rejection_reason=rejection_reason,
    )


def limit_history(history: tuple[HistoryEntry, ...], most: int) -> tuple[HistoryEntry, ...]:
    """The newest entries, each with its notes cut to a length that a prompt can bear."""
    kept = history[-most:] if most > 0 else ()
    return tuple(
        replace(entry, notes=truncate_text(entry.notes), rejection_reason=truncate_text(entry.rejection_reason))
        for entry in kept
    )


def truncate_text(text: str, most: int = MAX_NOTE_CHARS) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 30]} … [{len(text) - most + 30} characters cut]"


def requeue_tasks(session: Session, now: float) -> Iterator[Event]:
    """Everybody gets another chance, save those whose dependency a person has dropped."""
    hopeless = frozenset(find_dependants(session, session.states[TaskState.DROPPED]))
    for name in session.list_in_state(TaskState.REQUEUED, TaskState.FAILED):
        yield from _renew_task(name, hopeless)
    for name in session.list_in_state(TaskState.BLOCKED):
        if name not in hopeless:
            yield TaskMoved(task=name, cause=Cause.UNBLOCK)
    yield from _present_deferred(session, hopeless, now)


def _renew_task(name: str, hopeless: frozenset[str]) -> Iterator[Event]:
    yield TaskMoved(task=name, cause=Cause.RENEW)
    if name in hopeless:
        yield TaskMoved(task=name, cause=Cause.BLOCK, reason="a dependency was dropped")


def _present_deferred(session: Session, hopeless: frozenset[str], now: float) -> Iterator[Event]:
    """Deferred work whose foundations stand is shown again; what stood on rejected work is done anew."""
    deferred = session.list_in_state(TaskState.DEFERRED)
    loose = [name for name in deferred if _has_lost_foundation(session, session.tasks[name])]
    fallen = {*loose, *find_reachable(loose, lambda name: session.built_upon.get(name, ()))}
    for name in deferred:
        record = session.tasks[name]
        if name in fallen:
            notes = f"{record.reason}; what it was built on is being redone, so it starts again from there"
            yield from _requeue_stale(record, HistoryResult.STALE, notes, now)
            yield from _renew_task(name, hopeless)
        else:
            yield TaskMoved(task=name, cause=Cause.PRESENT)
            if record.verdict == VerdictStatus.PASS:
                yield TaskMoved(task=name, cause=Cause.VALIDATE)


def _has_lost_foundation(session: Session, record: TaskRecord) -> bool:
    """It was refused while it waited, or something under it is neither standing nor waiting as it was."""
    assert record.result is not None, f"{record.task.id} is deferred without a result"
    return record.verdict == VerdictStatus.FAIL or not all(
        _is_foundation_present(session, below) for below in record.result.built_on
    )


def _is_foundation_present(session: Session, foundation: TaskCommit) -> bool:
    record = session.tasks[foundation.task]
    there = record.state in VERIFIED_NOT_LANDED or record.state in (TaskState.MERGED, TaskState.DEFERRED)
    return there and record.result is not None and record.result.sha == foundation.sha


def _requeue_stale(record: TaskRecord, outcome: HistoryResult, notes: str, now: float) -> Iterator[Event]:
    entry = build_history_entry(record, outcome, now, notes=notes)
    yield TaskMoved(task=record.task.id, cause=Cause.REQUEUE, reason=notes, history=entry)
