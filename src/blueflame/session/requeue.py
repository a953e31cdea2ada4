"""What a new cycle takes up again: sent-back, failed, blocked and deferred tasks."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.event import Event, TaskMoved
from blueflame.model.task import VERIFIED_NOT_LANDED, Cause, HistoryResult, TaskCommit, TaskRecord, TaskState
from blueflame.model.verdict import VerdictStatus
from blueflame.session.attempt_history import build_history_entry
from blueflame.session.cascade import find_dependants, find_reachable
from blueflame.session.state import Session


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
