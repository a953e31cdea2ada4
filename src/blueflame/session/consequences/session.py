"""What follows for the whole session: it is resumed, a cycle ends, files changed beside it, a gate is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blueflame.model.event import (
    BaseLost,
    ConfigDrifted,
    CycleEnded,
    EditRefused,
    Event,
    GateAnswered,
    GateWithdrawn,
    OrchestratorStarted,
    SessionEnded,
    TasksImported,
)
from blueflame.model.gate import GateKind
from blueflame.session.environment import RESUMED, retry_all
from blueflame.session.gates.answers import handle_answer
from blueflame.session.gates.questions import open_base_gate, open_drift_gate, open_session_gate, open_tasks_gate
from blueflame.session.missing_work import redo_missing
from blueflame.session.rate_limits import ACCOUNT_KINDS, try_account_again
from blueflame.session.requests.task_file import handle_tasks_imported
from blueflame.session.state import Session

ASKED_AGAIN = frozenset({GateKind.ENVIRONMENT, GateKind.BASE, GateKind.DRIFT})
"""Gates about what a person repairs outside of the session: a resume looks whether they have."""


def _handle_orchestrator_started(session: Session, event: OrchestratorStarted, now: float) -> Iterator[Event]:
    """Redo what is missing, and try again what failed before or waits for a person: they have come back."""
    yield from redo_missing(session, event.missing, now)
    yield from retry_all(session, by=RESUMED)
    for name, gate in session.open_gates.items():
        if gate.kind in ASKED_AGAIN and name not in event.answered:
            yield GateWithdrawn(gate=name, reason="the session was resumed")
    for runtime, parked in session.parked.items():
        if parked.kind in ACCOUNT_KINDS:
            yield from try_account_again(session, runtime, now)
            asked = session.gate_subjects.get((GateKind.RATE_LIMIT, runtime))
            if asked and asked not in event.answered:
                yield GateWithdrawn(gate=asked, reason="the session was resumed")


def _handle_cycle_ended(session: Session, event: CycleEnded, _now: float) -> Iterator[Event]:
    if session.all_finished:
        yield SessionEnded(outcome="completed")
    elif event.cycle >= session.limits.max_cycles:
        left = ", ".join(session.unfinished)
        yield SessionEnded(outcome="max_cycles", reason=f"not finished after {event.cycle} cycles: {left}")
    else:
        yield open_session_gate(session, event.cycle)


def _handle_edit_refused(session: Session, event: EditRefused, _now: float) -> Iterator[Event]:
    if not session.is_asking(GateKind.TASKS):
        yield open_tasks_gate(session, event)


def _handle_config_drifted(session: Session, event: ConfigDrifted, _now: float) -> Iterator[Event]:
    if not session.is_asking(GateKind.DRIFT):  # two boundaries may have found the same change
        yield open_drift_gate(session, event)


def _handle_base_lost(session: Session, event: BaseLost, _now: float) -> Iterator[Event]:
    if not session.is_asking(GateKind.BASE):
        yield open_base_gate(session, event)


SESSION_CONSEQUENCES: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    OrchestratorStarted: _handle_orchestrator_started,
    CycleEnded: _handle_cycle_ended,
    TasksImported: handle_tasks_imported,
    EditRefused: _handle_edit_refused,
    ConfigDrifted: _handle_config_drifted,
    BaseLost: _handle_base_lost,
    GateAnswered: handle_answer,
}
