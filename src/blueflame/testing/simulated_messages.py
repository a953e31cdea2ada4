"""Messages of a person to a simulated session, from another terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blueflame.model.event import AttemptCancelled, AttemptStalled, Event, ProceedRequested, StopRequested
from blueflame.session.state import Session

SimulatedMessage = Callable[[Session], Sequence[Event]]
"""A request from another terminal, turned into events when it arrives."""


def request_stop(session: Session, *, now: bool = False) -> Sequence[Event]:
    """Stop the session."""
    cancels = [AttemptCancelled(attempt=name, reason="stopped by a person") for name in session.live]
    return [StopRequested(reason="stopped by a person", now=now), *cancels]


def request_proceed(session: Session, *, kill: bool = False) -> Sequence[Event]:
    """Proceed with the finished tasks."""
    if not session.cycle_open:
        return ()
    cancels = [AttemptCancelled(attempt=name, reason="left behind") for name in session.live if kill]
    return [ProceedRequested(by="a person", kill=kill), *cancels]


def report_stalls(session: Session) -> Sequence[Event]:
    """Report that every live agent has been silent for a while."""
    return [AttemptStalled(attempt=name, seconds=300.0) for name in session.live]
