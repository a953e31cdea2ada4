"""What follows when a model or our own environment fails and when it is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blueflame.model.event import (
    EnvironmentFailed,
    EnvironmentRecovered,
    Event,
    GateWithdrawn,
    RuntimeParked,
    RuntimeResumed,
)
from blueflame.model.gate import GateKind
from blueflame.session.environment import is_first_after_resume
from blueflame.session.environment import should_ask as should_ask_about_environment
from blueflame.session.gates.questions import open_environment_gate, open_rate_limit_gate
from blueflame.session.rate_limits import should_ask
from blueflame.session.state import Session


def _handle_runtime_parked(session: Session, event: RuntimeParked, now: float) -> Iterator[Event]:
    asking = session.is_asking(GateKind.RATE_LIMIT, event.runtime)
    if not session.stopping and not asking and should_ask(session.limits, event, now):
        yield open_rate_limit_gate(session, event)


def _handle_runtime_resumed(session: Session, event: RuntimeResumed, _now: float) -> Iterator[Event]:
    name = session.gate_subjects.get((GateKind.RATE_LIMIT, event.runtime))
    if name is not None and not event.by:  # with `by` a person has just answered that gate
        yield GateWithdrawn(gate=name, reason=event.reason or f"{event.runtime} is available again")


def _handle_environment_failed(session: Session, event: EnvironmentFailed, _now: float) -> Iterator[Event]:
    """Ask once for all acts that fail again and again."""
    asks = should_ask_about_environment(event) and not session.is_asking(GateKind.ENVIRONMENT)
    asks = asks and not is_first_after_resume(session, event.act)
    if asks and not session.stopping:
        yield open_environment_gate(session, event)


def _handle_environment_recovered(session: Session, event: EnvironmentRecovered, _now: float) -> Iterator[Event]:
    name = session.gate_subjects.get((GateKind.ENVIRONMENT, GateKind.ENVIRONMENT.value))
    others = (problem for act, problem in session.problems.items() if act != event.act)
    if name is not None and not any(map(should_ask_about_environment, others)):
        yield GateWithdrawn(gate=name, reason=f"{event.act} does not fail any more")


AVAILABILITY_CONSEQUENCES: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    RuntimeParked: _handle_runtime_parked,
    RuntimeResumed: _handle_runtime_resumed,
    EnvironmentFailed: _handle_environment_failed,
    EnvironmentRecovered: _handle_environment_recovered,
}
