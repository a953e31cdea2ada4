"""The size stage: the prompt of an agent that sizes a request, and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from blueflame.documents.sizes import SizeError, parse_size
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.event import Event
from blueflame.orchestrator.attempts.inspect_result import find_audit_gaps, judge_output
from blueflame.orchestrator.attempts.instructions import gather_instructions
from blueflame.orchestrator.attempts.lessons import word_given_lessons
from blueflame.orchestrator.attempts.planner import draw_code_map
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import TriagerBrief, render_triager
from blueflame.session.clarifications import list_clarifications
from blueflame.session.from_settings import list_role_skills
from blueflame.session.sizing.choose import conclude_sizing
from blueflame.session.state import Session
from blueflame.text.sanitize import shorten_line

MAX_REASON_CHARS = 200


def build_triager_prompt(context: SessionContext, session: Session, attempt: Attempt, base: str) -> str:
    brief = TriagerBrief(
        project=session.project,
        base_branch=session.base_branch,
        session=session.id,
        request=session.request,
        found=session.triage.sizing.reasons if session.triage else (),
        instructions=gather_instructions(context, session),
        skills=list_role_skills(context.settings, attempt.role),
        clarifications=list_clarifications(session, attempt.subject),
        lessons=word_given_lessons(context, session, attempt),
        hints=draw_code_map(context, base),
    )
    return render_triager(brief, token_hex(16))


async def read_triager(
    context: SessionContext, session: Session, finished: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    """It is asked once: whatever it fails for, the request is planned."""
    gaps = await asyncio.to_thread(find_audit_gaps, context, finished)
    ended = await asyncio.to_thread(judge_output, context, finished, gaps)
    if ended.ending in (Ending.CANCELLED, Ending.LOST):
        return ended, []
    try:
        answer = parse_size(ended.output) if ended.ending is Ending.PASSED else None
    except SizeError as error:
        return ended, [conclude_sizing(session, f"{finished.attempt.role} gave no size: {error}")]
    why = shorten_line(f"{ended.ending.value.replace('_', ' ')}: {ended.notes}", MAX_REASON_CHARS)
    return ended, [conclude_sizing(session, answer or f"{finished.attempt.role} gave no size: {why}")]
