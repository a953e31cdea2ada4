"""What follows immediately from an event. An outcome and its consequences are appended to the journal together.

One handler per event, in a module for each subject as in `session/apply`. What happens when nothing is due at once is
decided in `session/decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blueflame.model.attempt import PLAN_SUBJECT, UNAVAILABLE, Duty, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import (
    ChangesetEvicted,
    ChangesetTrimmed,
    ConflictResolved,
    Event,
    GateAnswered,
    GateWithdrawn,
    PlanFailed,
    TaskMoved,
    VerdictGiven,
)
from blueflame.model.ids import build_attempt_id
from blueflame.model.task import Cause, TaskState
from blueflame.session.budget import is_stopped_by_shared_budget
from blueflame.session.consequences.attempts import ATTEMPT_CONSEQUENCES
from blueflame.session.consequences.availability import AVAILABILITY_CONSEQUENCES
from blueflame.session.consequences.changesets import CHANGESET_CONSEQUENCES
from blueflame.session.consequences.session import SESSION_CONSEQUENCES
from blueflame.session.consequences.verdicts import VERDICT_CONSEQUENCES, apply_threshold
from blueflame.session.state import Session
from blueflame.session.task_states import MOVES, find_next_state

SKIPPED_IF_ILLEGAL = frozenset({Cause.DEFER, Cause.BLOCK})
"""Moves that several causes can give at once: a task that has already moved stays where it is."""


def consequences_of(session: Session, event: Event, now: float) -> Iterator[Event]:
    """Yield the event and everything that follows from it, decided on the session before the event.

    Every move is checked here: a journal with an illegal one could not be replayed.
    """
    if isinstance(event, PlanFailed) and _is_planner_blameless(session, event.round):
        return
    if _is_outdated(session, event):
        return
    states: dict[str, TaskState] = {}
    if isinstance(event, VerdictGiven) and event.attempt:
        event = apply_threshold(session, event)
    for each in _expand_event(session, event, now):
        if isinstance(each, TaskMoved):
            state = states.get(each.task, session.tasks[each.task].state)
            if each.cause in SKIPPED_IF_ILLEGAL and (state, each.cause) not in MOVES:
                continue
            states[each.task] = find_next_state(state, each.cause)
        yield each


def _is_outdated(session: Session, event: Event) -> bool:
    """Whether it came too late: for a changeset whose tasks went back, for a gate that another answer closed."""
    match event:
        case GateAnswered() | GateWithdrawn():
            return event.gate not in session.open_gates
        case ConflictResolved():
            return session.changesets[event.changeset].state is not ChangesetState.CONFLICTED
        case ChangesetTrimmed() | ChangesetEvicted():
            return event.changeset not in session.merging
    return False


def _is_planner_blameless(session: Session, round_: int) -> bool:
    """Whether the planner of this round ended for no fault of its own: then it is started again."""
    planner = session.workflow.find_role(Duty.PLAN)
    record = session.attempts.get(build_attempt_id(session.id, PLAN_SUBJECT, planner, round_))
    if record is None or record.ended is None:
        return False
    unstarted = record.ended.ending is Ending.ENVIRONMENT
    return unstarted or record.ended.ending in UNAVAILABLE or is_stopped_by_shared_budget(record.attempt, record.ended)


def _expand_event(session: Session, event: Event, now: float) -> Iterator[Event]:
    yield event
    handler = HANDLERS.get(type(event))
    for consequence in handler(session, event, now) if handler else ():
        yield from _expand_event(session, consequence, now)


HANDLERS: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    **SESSION_CONSEQUENCES,
    **ATTEMPT_CONSEQUENCES,
    **AVAILABILITY_CONSEQUENCES,
    **VERDICT_CONSEQUENCES,
    **CHANGESET_CONSEQUENCES,
}
