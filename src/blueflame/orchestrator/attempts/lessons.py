"""What an attempt is given from earlier sessions: chosen and recorded before it starts, and worded for its prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_hex

from blueflame.knowledge.wording import describe_for_planner, word_lesson
from blueflame.knowledge.work import build_work
from blueflame.memory.provider import NO_MEMORY, RecallRequest
from blueflame.model.attempt import Attempt, Duty
from blueflame.model.event import LessonsGiven
from blueflame.model.memory import GivenLesson, Lesson
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.prompts import SharedKnowledge
from blueflame.session.state import Session
from blueflame.text.sanitize import shorten_line

POLL_SECONDS = 0.005


async def give_lessons(context: SessionContext, session: Session, attempt: Attempt, emit: Emit) -> None:
    """Choose once: an attempt that is prepared again after a crash gets the same."""
    if context.memory is NO_MEMORY or attempt.duty is Duty.CURATE:
        return
    if session.shared is None:
        chosen = await asyncio.to_thread(context.memory.choose_shared, context.settings.memory.shared_tokens)
        given = tuple(GivenLesson(key=lesson.key) for lesson in chosen)
        event = LessonsGiven(attempt="", lessons=given, nonce=token_hex(16))
        await _record(context, emit, event, lambda: session.shared)
    if session.attempts[attempt.id].lessons is None:
        choice = await asyncio.to_thread(context.memory.choose, _build_request(context, session, attempt))
        if choice.lessons:
            event = LessonsGiven(attempt=attempt.id, lessons=choice.lessons)
            await _record(context, emit, event, lambda: session.attempts[attempt.id].lessons)


async def _record(
    context: SessionContext, emit: Emit, event: LessonsGiven, find_recorded: Callable[[], object]
) -> None:
    """Wait until it is in the journal: an agent must not be given what a crash would lose."""
    emit([event])
    while find_recorded() is None:
        await context.clock.sleep(POLL_SECONDS)


def _build_request(context: SessionContext, session: Session, attempt: Attempt) -> RecallRequest:
    settings = context.settings.memory
    return RecallRequest(
        work=build_work(session, attempt),
        budget=settings.context_tokens if attempt.duty is Duty.PLAN else settings.lesson_tokens,
        without=frozenset(each.key for each in session.shared.lessons) if session.shared else frozenset(),
        control=settings.control_every,
    )


def word_given_lessons(context: SessionContext, session: Session, attempt: Attempt) -> tuple[str, ...]:
    """Word what was recorded, or a note that it cannot be read."""
    recorded = session.attempts[attempt.id].lessons or ()
    found = context.memory.load([each.key for each in recorded if each.left_out is None])
    if attempt.duty is Duty.PLAN:
        lines = describe_for_planner(found.records, found.ages)
    else:
        lines = tuple(word_lesson(record) for record in found.records if isinstance(record, Lesson))
    missing = (f"(some lessons of earlier sessions could not be read: {shorten_line(found.note, 200)})",)
    return (*lines, *(missing if found.note else ()))


def word_shared_lessons(context: SessionContext, session: Session) -> SharedKnowledge | None:
    """The same bytes for every attempt of the session; None if there is nothing."""
    if session.shared is None or not session.shared.lessons:
        return None
    nonce = session.shared.nonce
    found = context.memory.load([each.key for each in session.shared.lessons])
    lines = [word_lesson(record) for record in found.records if isinstance(record, Lesson)]
    kept = tuple(line for line in lines if nonce not in line.casefold())  # it would end its block
    return SharedKnowledge(nonce, kept) if kept else None
