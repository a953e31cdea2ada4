"""The curate stage: the prompt of an agent that curates the knowledge files, and the changes that it proposes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from secrets import token_hex

from blueflame.knowledge.agent_edits import BadAnswer, is_open_to_agents, read_edits
from blueflame.knowledge.curate import count_tokens
from blueflame.model.attempt import BLAMELESS, Attempt, AttemptOutcome, Ending
from blueflame.model.event import CurationProposed, Event
from blueflame.model.memory import KnowledgeFile, Lesson, get_knowledge_file
from blueflame.orchestrator.attempts.inspect_result import find_audit_gaps, judge_output
from blueflame.orchestrator.attempts.instructions import gather_instructions
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import CuratorBrief, KnowledgeSheet, render_curator
from blueflame.session.from_settings import list_role_skills
from blueflame.session.state import Session
from blueflame.text.sanitize import clean_line, shorten_line

MAX_REASON_CHARS = 200


def build_curator_prompt(context: SessionContext, session: Session, attempt: Attempt, base: str) -> str:  # noqa: ARG001
    brief = CuratorBrief(
        project=session.project,
        base_branch=session.base_branch,
        session=session.id,
        request=session.request,
        sheets=tuple(
            KnowledgeSheet(
                name=file.name,
                tokens=sum(count_tokens(each) for each in entries),
                budget=file.tokens,
                lines=tuple(map(_describe_entry, entries)),
            )
            for file, entries in _group_by_file(list_entries(context))
        ),
        instructions=gather_instructions(context, session),
        skills=list_role_skills(context.settings, attempt.role),
    )
    return render_curator(brief, token_hex(16))


def list_entries(context: SessionContext) -> list[Lesson]:
    """The entries of all knowledge files."""
    return [each for each in context.memory.list_records() if isinstance(each, Lesson) and each.is_active]


def _group_by_file(lessons: Sequence[Lesson]) -> list[tuple[KnowledgeFile, list[Lesson]]]:
    ordered = sorted(lessons, key=lambda each: (get_knowledge_file(each).name, each.origin.at, each.key))
    return [(file, list(group)) for file, group in groupby(ordered, key=get_knowledge_file)]


def _describe_entry(lesson: Lesson) -> str:
    origin = lesson.origin
    facts = [
        "" if is_open_to_agents(lesson) else "a person's: it stays as it is",
        "its files have changed often since" if lesson.stale else "",
        f"about {', '.join((*origin.files, *lesson.symbols))}" if origin.files or lesson.symbols else "",
        f"given to {origin.used} attempts, {origin.helped} passed at once" if origin.used else "",
    ]
    return clean_line(f"[{lesson.key}] {lesson.text} ({'; '.join(filter(None, facts)) or 'about no file'})")


async def read_curator(
    context: SessionContext, session: Session, finished: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    """It is asked once; only what says nothing about its work is tried again."""
    attempt = finished.attempt
    gaps = await asyncio.to_thread(find_audit_gaps, context, finished)
    ended = await asyncio.to_thread(judge_output, context, finished, gaps)
    if ended.ending in BLAMELESS or session.curation is not None:
        return ended, []
    if ended.ending is not Ending.PASSED:
        why = shorten_line(f"{ended.ending.value.replace('_', ' ')}: {ended.notes}", MAX_REASON_CHARS)
        return ended, [CurationProposed(attempt=attempt.id, problem=f"{attempt.role} proposed nothing: {why}")]
    lessons = await asyncio.to_thread(list_entries, context)
    try:
        edits, refused = read_edits(ended.output, lessons)
    except BadAnswer as error:
        return ended, [CurationProposed(attempt=attempt.id, problem=f"{attempt.role} proposed nothing: {error}")]
    return ended, [CurationProposed(attempt=attempt.id, edits=edits, refused=refused)]
