"""How a task's standing changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import VALIDATOR, WORKER, Ending
from blueflame.model.event import EditDismissed, EditRefused, TaskEdited, TaskMoved, TasksImported
from blueflame.model.ids import build_attempt_id
from blueflame.model.task import Cause, Result, TaskRecord
from blueflame.session.apply.indexes import due_hook, install, place
from blueflame.session.attempt_history import bounded
from blueflame.session.state import Session
from blueflame.session.task_states import move


def _task_moved(session: Session, event: TaskMoved, _at: float) -> None:
    old = session.tasks[event.task]
    record = replace(old, state=move(old.state, event.cause), reason=event.reason)
    if event.history is not None:
        record = replace(record, history=bounded((*record.history, event.history), session.limits.max_history))
    record = CHANGES.get(event.cause, _as_it_is)(session, record, event)
    if event.cause in FORGETS_CHECKS:
        session.checks.pop(event.task, None)
    place(session, record)


def _as_it_is(_session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    return record


def _completed(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    assert event.result is not None, "a task is completed by a result"
    _stand_on(session, record.task.id, event.result)
    session.losses.pop((event.task, VALIDATOR), None)
    if not session.workflow.barrier:
        due_hook(session, "pre_validation", f"pre_validation:{event.task}:{record.attempts}", event.task)
    return replace(record, result=event.result, validator_failures=0, verdict=None, verdict_notes="")


def _stand_on(session: Session, task: str, result: Result) -> None:
    for foundation in result.built_on:
        session.built_upon.setdefault(foundation.task, {})[task] = None


def _failed(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    due_hook(session, "on_failure", _failure_key(record), event.task)
    return replace(_without_result(session, record), agent_id=None, worktree=None)


def _without_result(session: Session, record: TaskRecord) -> TaskRecord:
    if record.result is not None:
        for foundation in record.result.built_on:
            session.built_upon.get(foundation.task, {}).pop(record.task.id, None)
    return replace(record, result=None, verdict=None)


def _failure_key(record: TaskRecord) -> str:
    return f"on_failure:{record.task.id}:{record.attempts}"


def _retried(session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    """The hook is for tasks that failed for good."""
    session.hooks_due.pop(_failure_key(record), None)
    return replace(record, retries=record.retries + 1)


def _released(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    last = session.attempts[build_attempt_id(session.id, event.task, WORKER, session.attempts_on[event.task, WORKER])]
    lost = last.ended is not None and last.ended.ending is Ending.LOST
    return replace(record, losses=record.losses + lost, agent_id=None, worktree=None)


def _requeued(session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    return replace(_without_result(session, record), agent_id=None, worktree=None)


def _renewed_task(_session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    return replace(record, retries=0, losses=0)


CHANGES: dict[Cause, Callable[[Session, TaskRecord, TaskMoved], TaskRecord]] = {
    Cause.COMPLETE: _completed,
    Cause.FAIL: _failed,
    Cause.RETRY: _retried,
    Cause.RELEASE: _released,
    Cause.REQUEUE: _requeued,
    Cause.RENEW: _renewed_task,
    Cause.UNBLOCK: _renewed_task,
}


FORGETS_CHECKS = frozenset({Cause.COMPLETE, Cause.FAIL, Cause.REQUEUE, Cause.DROP})


def _task_edited(session: Session, event: TaskEdited, _at: float) -> None:
    records = dict(session.tasks)
    records[event.task.id] = replace(records[event.task.id], task=event.task)
    install(session, records)


def _tasks_imported(session: Session, event: TasksImported, _at: float) -> None:
    """Those that were left out are moved by events of their own."""
    records = dict(session.tasks)
    records |= {task.id: TaskRecord(task=task) for task in event.added if task.id not in records}
    records |= {task.id: replace(records[task.id], task=task) for task in event.edited}
    session.edits_seen |= {event.digest}
    install(session, records)


def _edit_refused(_session: Session, _event: EditRefused, _at: float) -> None:
    """Nothing is taken from it; the gate that asks about it is an event of its own."""


def _edit_dismissed(session: Session, event: EditDismissed, _at: float) -> None:
    session.edits_seen |= {event.digest}


TASKS: dict[type, Callable[[Session, Any, float], None]] = {
    TaskMoved: _task_moved,
    TaskEdited: _task_edited,
    TasksImported: _tasks_imported,
    EditRefused: _edit_refused,
    EditDismissed: _edit_dismissed,
}
