"""Carry what people write to a running agent, and report what it has read and what it asks."""

from __future__ import annotations

from contextlib import suppress

from blueflame.model.errors import WorldError
from blueflame.model.event import MessageDelivered, QuestionAsked
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.session.clarifications import parse_question
from blueflame.session.requests.messages import format_message
from blueflame.session.state import Session

POLL_SECONDS = 0.25


async def carry_messages(context: SessionContext, session: Session, attempt: str, emit: Emit) -> None:
    """Run until cancelled. Also for agents that an earlier orchestrator started."""
    sent, read = 0, sum(message.delivered_at is not None for message in session.attempts[attempt].messages)

    def report_read() -> None:
        nonlocal read
        messages = session.attempts[attempt].messages
        if read < len(messages):
            before, read = read, context.engine.count_read_messages(attempt)
            emit([MessageDelivered(attempt=attempt, number=number) for number in range(before + 1, read + 1)])

    def report_questions() -> None:
        for found in context.engine.read_questions(attempt)[session.attempts[attempt].questions :]:
            question = parse_question(found)
            assert question is not None, "the warden has checked it"
            emit([QuestionAsked(attempt=attempt, question=question)])

    try:
        while True:
            messages = session.attempts[attempt].messages
            if sent < len(messages):
                with suppress(WorldError):  # a disk that is full or read-only: written when it can be
                    context.engine.send_messages(attempt, [format_message(message) for message in messages])
                    sent = len(messages)
            report_read()
            report_questions()
            await context.clock.sleep(POLL_SECONDS)
    finally:
        report_read()
