"""What follows for the tasks of a changeset when it lands, is judged, or cannot land."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blueflame.model.event import (
    BaseMoved,
    ChangesetEvicted,
    ChangesetJudged,
    ChangesetTrimmed,
    Event,
    Landed,
    PullRequestOpened,
    TaskMoved,
)
from blueflame.model.task import Cause, HistoryResult
from blueflame.session.cascade import defer_tasks_built_on
from blueflame.session.changesets.queue import list_outdated_conflicts
from blueflame.session.retries import requeue_with_history
from blueflame.session.state import Session


def _handle_changeset_evicted(session: Session, event: ChangesetEvicted, now: float) -> Iterator[Event]:
    tasks = session.changesets[event.changeset].changeset.tasks
    for name in tasks:
        yield requeue_with_history(session, name, HistoryResult.CONFLICT, now, event.reason)
    yield from defer_tasks_built_on(session, tasks, f"{event.changeset} could not land: {event.reason}")


def _handle_changeset_trimmed(session: Session, event: ChangesetTrimmed, now: float) -> Iterator[Event]:
    outcome = HistoryResult.CONFLICT if event.paths else HistoryResult.VALIDATION_FAILED
    for name in event.tasks:
        yield requeue_with_history(session, name, outcome, now, event.reason)
    why = f"{', '.join(event.tasks)} could not land: {event.reason}"
    for name in event.waiting:
        yield TaskMoved(task=name, cause=Cause.DEFER, reason=why)
    yield from defer_tasks_built_on(session, (*event.tasks, *event.waiting), why, apart_from=event.changeset)


def _handle_changeset_judged(session: Session, event: ChangesetJudged, now: float) -> Iterator[Event]:
    """Move the tasks of a rejected or skipped changeset; an approved one lands by an effect."""
    changeset = session.changesets[event.changeset].changeset
    if event.choice == "reject":
        for name in changeset.tasks:
            why = f"rejected: {event.note}"
            yield requeue_with_history(session, name, HistoryResult.REJECTED, now, why, rejection_reason=event.note)
        why = f"depends on the rejected changeset [{changeset.group}]"
        yield from defer_tasks_built_on(session, changeset.tasks, why)
    elif event.choice == "skip":
        for name in changeset.tasks:
            yield TaskMoved(task=name, cause=Cause.DEFER, reason=event.note or "skipped")
        why = f"depends on the skipped changeset [{changeset.group}]"
        yield from defer_tasks_built_on(session, changeset.tasks, why)


def _handle_landed(session: Session, event: Landed | PullRequestOpened, _now: float) -> Iterator[Event]:
    for name in session.changesets[event.changeset].changeset.tasks:
        yield TaskMoved(task=name, cause=Cause.LAND)
    if isinstance(event, Landed):  # a merger is to see the conflict as it is now
        for name in [*list_outdated_conflicts(session, event.changeset)]:
            yield BaseMoved(changeset=name, expected=event.before, found=event.after)


CHANGESET_CONSEQUENCES: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    ChangesetEvicted: _handle_changeset_evicted,
    ChangesetTrimmed: _handle_changeset_trimmed,
    ChangesetJudged: _handle_changeset_judged,
    Landed: _handle_landed,
    PullRequestOpened: _handle_landed,
}
