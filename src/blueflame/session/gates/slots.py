"""Agents that get no slot of the house's pool: what is reported, and whether a person is asked for an ad hoc agent.

`Capacity.waiting` has what the pool said to each role that asked, so these decisions are as pure as all others.
"""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.event import Event, GateWithdrawn, SlotAwaited
from blueflame.model.gate import Answer, Gate, GateKind, build_gate_id
from blueflame.model.limits import Capacity
from blueflame.session.gates.questions import open_assignment_gate
from blueflame.session.state import Session


def report_slots(session: Session, capacity: Capacity) -> Iterator[Event]:
    """Report who waits for a slot, once, and again when it takes long; ask where an ad hoc agent is possible."""
    for role, wait in capacity.waiting.items():
        known = session.awaited.get(role)
        if known is None or (wait.is_late and not known.is_late):
            yield SlotAwaited(role=role, wait=wait)
        asked = session.is_asking(GateKind.ASSIGNMENT, role) or _has_chosen_to_wait(session, role)
        if wait.may_spawn and not wait.ad_hoc and not asked:
            yield open_assignment_gate(session, role, wait)
    for role in session.awaited:
        if role not in capacity.waiting:
            yield SlotAwaited(role=role, wait=None)
            yield from withdraw_assignment(session, role, f"nothing waits for {role} any more")


def withdraw_assignment(session: Session, role: str, reason: str) -> Iterator[Event]:
    if name := session.gate_subjects.get((GateKind.ASSIGNMENT, role)):
        yield GateWithdrawn(gate=name, reason=reason)


def may_be_ad_hoc(session: Session, role: str, subject: str) -> bool:
    """Whether a person chose an ad hoc agent for this subject. It holds for all its attempts."""
    answers = _list_answers(session, role)
    return any(answer.choice == "spawn" and gate.evidence["subject"] == subject for gate, answer in answers)


def is_waiting(session: Session, capacity: Capacity, role: str, subject: str) -> bool:
    """Whether an attempt gets no slot: the pool refused one of its role, also as an ad hoc one if it may be that."""
    wait = capacity.waiting.get(role)
    return wait is not None and (wait.ad_hoc or not may_be_ad_hoc(session, role, subject))


def _has_chosen_to_wait(session: Session, role: str) -> bool:
    return any(answer.choice == "wait" for _gate, answer in _list_answers(session, role))


def _list_answers(session: Session, role: str) -> Iterator[tuple[Gate, Answer]]:
    for n in range(session.gate_counts.get((GateKind.ASSIGNMENT, role), 0)):
        name = build_gate_id(GateKind.ASSIGNMENT, role, n + 1)
        if name in session.answers:
            yield session.gates[name], session.answers[name]
