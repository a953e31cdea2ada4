"""The validate stage: checks first, then a reviewer, who cannot overrule a failed check."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex

from blueflame.checks.leftovers import find_validator_changes
from blueflame.documents.hand_offs import read_verdict_words
from blueflame.documents.verdicts import VerdictError, parse_verdict
from blueflame.git.repository import Repository
from blueflame.git.results import list_changes, read_diff
from blueflame.git.untrusted.branches import read_checkout_head
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.changeset import FileChange
from blueflame.model.errors import WorldError
from blueflame.model.event import Event, VerdictGiven
from blueflame.model.verdict import Violation
from blueflame.orchestrator.attempts.fixed_work import read_fixed_work
from blueflame.orchestrator.attempts.inspect_result import (
    find_audit_gaps,
    judge_output,
    judge_unreadable,
    read_leftovers,
    summarize_audit,
)
from blueflame.orchestrator.attempts.instructions import gather_instructions
from blueflame.orchestrator.attempts.lessons import word_given_lessons
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import MAX_DIFF_BYTES, ValidatorBrief, render_validator
from blueflame.paths.locks import split_path
from blueflame.session.clarifications import list_clarifications
from blueflame.session.from_settings import list_role_skills
from blueflame.session.hand_offs import list_received
from blueflame.session.state import Session
from blueflame.text.hand_offs import select_hand_offs


def build_validator_prompt(context: SessionContext, session: Session, attempt: Attempt, _base: str) -> str:
    record = session.tasks[attempt.subject]
    assert record.result is not None, f"{attempt.subject} is reviewed without a result"
    base, sha = record.result.base, record.result.sha
    files = list_file_changes(context.repo, base, sha)
    brief = ValidatorBrief(
        project=session.project,
        base_branch=session.base_branch,
        session=session.id,
        task=record.task,
        base=base,
        sha=sha,
        diff=read_diff(context.repo, base, sha, max_bytes=MAX_DIFF_BYTES * 4),
        skills=list_role_skills(context.settings, attempt.role),
        clarifications=list_clarifications(session, attempt.subject),
        lessons=word_given_lessons(context, session, attempt),
        files=files,
        checks=session.checks.get(attempt.subject, ()),
        diagnostics=session.limits.checks,
        history=record.history,
        instructions=gather_instructions(context, session, [split_path(change.path) for change in files]),
        audit=summarize_audit(context, session, attempt.subject),
        fixes=read_fixed_work(context, session, attempt.subject),
        hand_offs=select_hand_offs(list_received(session, attempt)),
        needs_confidence=session.limits.review_threshold is not None,
    )
    return render_validator(brief, token_hex(16))


def list_file_changes(repo: Repository, base: str, tip: str) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(path=change.path, added=change.added, deleted=change.deleted)
        for change in list_changes(repo, base, tip)
    )


async def read_validator(
    context: SessionContext, _session: Session, finished: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    attempt, base = finished.attempt, finished.base
    try:
        gaps = await asyncio.to_thread(find_audit_gaps, context, finished)
        broken = await asyncio.to_thread(_find_reviewer_changes, context, finished)
    except WorldError as error:
        return judge_unreadable(context, finished, error), []
    ended = await asyncio.to_thread(judge_output, context, finished, gaps, broken)
    if ended.ending is not Ending.PASSED:
        return ended, []
    try:
        verdict = parse_verdict(ended.output, by=attempt.agent_id)
    except VerdictError as error:
        return replace(ended, ending=Ending.BAD_OUTPUT, notes=str(error)), []
    ended = replace(ended, hand_off=read_verdict_words(ended.output or {}))
    return ended, [VerdictGiven(task=attempt.subject, sha=base, verdict=verdict, attempt=attempt.id, stage=attempt.key)]


def _find_reviewer_changes(context: SessionContext, finished: FinishedAttempt) -> tuple[Violation, ...]:
    """Changes that a reviewer made: its verdict is then about something else than the result."""
    left = read_leftovers(context, finished)
    if left is None:
        return ()
    head = read_checkout_head(context.paths.checkout(finished.attempt.agent_id))
    return find_validator_changes(left, head=head, expected=finished.base)
