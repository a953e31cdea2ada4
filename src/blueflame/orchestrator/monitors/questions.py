"""Wait for the answer to an agent's question, for as long as `gates.question_wait` allows."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.model.event import Event
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.session.clarifications import find_late_answer
from blueflame.session.effects import AwaitAnswer
from blueflame.session.state import Session

POLL_SECONDS = 0.5


async def await_answer(context: SessionContext, session: Session, effect: AwaitAnswer, _emit: Emit) -> Sequence[Event]:
    while effect.gate in session.open_gates:
        if events := find_late_answer(session, effect.gate, context.clock.now()):
            return events
        await context.clock.sleep(POLL_SECONDS)
    return []
