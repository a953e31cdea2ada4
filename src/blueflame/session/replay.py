"""Apply events to a session: `apply_event` one by one gives the same session as `replay` of them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from blueflame.model.errors import InternalError
from blueflame.model.event import JournalEntry, SessionOpened
from blueflame.session.apply.attempts import ATTEMPT_HANDLERS
from blueflame.session.apply.changesets import CHANGESET_HANDLERS
from blueflame.session.apply.session import SESSION_HANDLERS
from blueflame.session.apply.tasks import TASK_HANDLERS
from blueflame.session.state import Session


def open_session(recorded: JournalEntry) -> Session:
    event = recorded.event
    if not isinstance(event, SessionOpened):
        raise InternalError(f"a journal must begin with SessionOpened, not {type(event).__name__}")
    session = Session(
        id=event.session,
        request=event.request,
        project=event.project,
        base_branch=event.base_branch,
        base_sha=event.base_sha,
        workflow=event.workflow,
        limits=event.limits,
        config_digest=event.config_digest,
        overrides=event.overrides,
        filters=event.filters,
        opened_at=recorded.at,
        seats={seat.name: seat for seat in event.team.seats},
        split_folders=frozenset(event.team.split),
    )
    session.seq, session.last_at = recorded.seq, recorded.at
    return session


def replay(events: Iterable[JournalEntry]) -> Session:
    entries = iter(events)
    first = next(entries, None)
    if first is None:
        raise InternalError("there is nothing to replay: the session has no events")
    session = open_session(first)
    for recorded in entries:
        apply_event(session, recorded)
    return session


def apply_event(session: Session, recorded: JournalEntry) -> None:
    if recorded.seq != session.seq + 1:
        raise InternalError(f"event {recorded.seq} of {session.id} does not follow event {session.seq}")
    handler = HANDLERS.get(type(recorded.event))
    if handler is None:
        raise InternalError(f"event {recorded.seq} of {session.id} is {type(recorded.event).__name__} in mid-session")
    handler(session, recorded.event, recorded.at)
    session.seq, session.last_at = recorded.seq, recorded.at


HANDLERS: dict[type, Callable[[Session, Any, float], None]] = {
    **SESSION_HANDLERS,
    **TASK_HANDLERS,
    **ATTEMPT_HANDLERS,
    **CHANGESET_HANDLERS,
}
"""A handler for every event except SessionOpened, which `open_session` takes."""
