"""When a silence is worth a word: once for each, and again only where a person is asked and said to wait."""

from __future__ import annotations

from blueflame.model.gate import GateKind
from blueflame.session.state import Session

KILL = "kill"
WARDEN_FIRST = 2.0  # seconds: where silence is to be ended, its warden ends it; ours is the second look


def is_stall_due(session: Session, attempt: str, *, silent_for: float, timeout: float, now: float) -> bool:
    record, policy = session.attempts[attempt], session.limits.on_stall
    allowed = timeout + WARDEN_FIRST if policy == KILL else timeout
    if silent_for < allowed or record.cancel_reason or session.stopping:
        return False
    told_at = record.stalled_at
    if told_at is None or told_at < now - silent_for:
        return True
    asking = session.is_asking(GateKind.STALL, record.attempt.subject)
    return policy == "ask" and not asking and now - told_at >= timeout
