"""How events about tasks change a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import Duty
from blueflame.model.event import BackoffEnded, EditDismissed, FixRequested, TaskEdited, TaskMoved, TasksImported
from blueflame.model.task import Cause, HistoryResult, Task, TaskRecord, TaskState
from blueflame.session.apply.indexes import install_tasks, put_task, schedule_hook
from blueflame.session.foundations import are_foundations_valid
from blueflame.session.next_try import grant_attempt
from blueflame.session.retries import limit_history
from blueflame.session.state import Session, is_workflow_changed
from blueflame.session.task_states import find_next_state


def _apply_task_moved(session: Session, event: TaskMoved, _at: float) -> None:
    old = session.tasks[event.task]
    record = replace(old, state=find_next_state(old.state, event.cause), reason=event.reason, until=event.until)
    if event.assigned is not None:
        record = replace(record, assigned=event.assigned)
    if event.history is not None:
        failed = event.cause in COUNTED_AS_FAILURE and event.history.result is not HistoryResult.STALE
        record = replace(record, failures=record.failures + failed)
        record = replace(record, history=limit_history((*record.history, event.history), session.limits.max_history))
    if event.cause in CHANGES_BY_CAUSE:
        record = CHANGES_BY_CAUSE[event.cause](session, record, event)
    if event.cause in CLEARS_CHECKS or event.result is not None:
        session.checks.pop(event.task, None)
    if record.state is TaskState.PENDING and record.start is not None:
        record = _continue_or_restart(session, record)
    put_task(session, record)


def _continue_or_restart(session: Session, record: TaskRecord) -> TaskRecord:
    """Keep what earlier stages made, unless it was built on work that is being redone."""
    assert record.start is not None, "only a task that was made in part can be continued"
    if are_foundations_valid(session, record.start.built_on):
        return replace(record, state=TaskState.PARTIAL)
    return replace(record, stage=0, start=None)


def _complete_task(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    assert event.result is not None, "a task is completed by a result"
    for foundation in event.result.built_on:
        session.built_upon.setdefault(foundation.task, {})[event.task] = None
    return _hand_over_task(session, record, event)


def _hand_over_task(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    """Put the task into its next stage; if that makes, it starts from what was made so far."""
    workflow = session.find_workflow(record.task)
    record = replace(
        record,
        stage=workflow.find_next_position(record.stage) if event.stage is None else event.stage,
        result=event.result or record.result,
        validator_failures=0,
        verdict=None,
        verdict_notes="",
    )
    if workflow.task_stages[record.stage].duty is Duty.MAKE:
        retries = 0 if session.limits.max_attempts else record.retries  # earlier versions had one count for all stages
        record = replace(record, start=record.result, result=None, agent_id=None, worktree=None)
        return replace(record, retries=retries, assigned=None)
    if event.result is not None and not session.workflow.barrier:
        schedule_hook(session, "pre_validation", f"pre_validation:{event.task}:{record.attempts}", event.task)
    return record


def _fail_task(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    schedule_hook(session, "on_failure", _build_failure_key(record), event.task)
    return _requeue_task(session, record, event)


def _requeue_task(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    for foundation in record.result.built_on if record.result else ():
        session.built_upon.get(foundation.task, {}).pop(record.task.id, None)
    stage = event.stage or 0
    return replace(
        record,
        result=None,
        verdict=None,
        agent_id=None,
        worktree=None,
        scratch=event.scratch,
        stage=stage,
        start=record.start if stage else None,
    )


def _build_failure_key(record: TaskRecord) -> str:
    return f"on_failure:{record.task.id}:{record.attempts}"


def _retry_task(session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    session.hooks_due.pop(_build_failure_key(record), None)  # the hook runs only when no retry is left
    return replace(record, retries=record.retries + 1)


def _release_task(_session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    return replace(record, agent_id=None, worktree=None)


def _renew_task(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    retries, limits = record.retries if event.keeps_retries else 0, session.limits.find_task_limits(record.task)
    record = grant_attempt(record) if event.granted else record
    return replace(record, retries=min(retries + 1, limits.most_retries) if event.counts else retries)


CHANGES_BY_CAUSE: dict[Cause, Callable[[Session, TaskRecord, TaskMoved], TaskRecord]] = {
    Cause.COMPLETE: _complete_task,
    Cause.HAND_OVER: _hand_over_task,
    Cause.FAIL: _fail_task,
    Cause.RETRY: _retry_task,
    Cause.RELEASE: _release_task,
    Cause.REQUEUE: _requeue_task,
    Cause.RENEW: _renew_task,
    Cause.UNBLOCK: _renew_task,
}


COUNTED_AS_FAILURE = frozenset({Cause.FAIL, Cause.REQUEUE})
CLEARS_CHECKS = frozenset({Cause.COMPLETE, Cause.FAIL, Cause.REQUEUE, Cause.DROP})


def _apply_backoff_ended(session: Session, event: BackoffEnded, _at: float) -> None:
    if event.task in session.waiting:
        put_task(session, replace(session.tasks[event.task], until=0.0))


def _apply_task_edited(session: Session, event: TaskEdited, _at: float) -> None:
    records = dict(session.tasks)
    records[event.task.id] = _edit_task(records[event.task.id], event.task)
    install_tasks(session, records)


def _edit_task(record: TaskRecord, task: Task) -> TaskRecord:
    stays = is_workflow_changed(record, task)
    return replace(record, task=replace(task, workflow=record.task.workflow) if stays else task)


def _apply_tasks_imported(session: Session, event: TasksImported, _at: float) -> None:
    """Add and replace tasks; a TaskMoved for each dropped one follows."""
    records = dict(session.tasks)
    records |= {task.id: TaskRecord(task=task) for task in event.added if task.id not in records}
    records |= {task.id: _edit_task(records[task.id], task) for task in event.edited}
    session.edits_seen |= {event.digest}
    install_tasks(session, records)


def _apply_fix_requested(session: Session, event: FixRequested, _at: float) -> None:
    session.fixes[event.task] = event


def _apply_edit_dismissed(session: Session, event: EditDismissed, _at: float) -> None:
    session.edits_seen |= {event.digest}


TASK_HANDLERS: dict[type, Callable[[Session, Any, float], None]] = {
    TaskMoved: _apply_task_moved,
    BackoffEnded: _apply_backoff_ended,
    TaskEdited: _apply_task_edited,
    TasksImported: _apply_tasks_imported,
    FixRequested: _apply_fix_requested,
    EditDismissed: _apply_edit_dismissed,
}
