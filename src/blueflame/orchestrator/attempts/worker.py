"""The work stage: a worker's prompt, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from blueflame.checks.leftovers import Leftovers
from blueflame.git.results import CollectedResult, NoResult, collect_result, keep_failed_result
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.errors import UsageError, WorldError
from blueflame.model.event import Event
from blueflame.model.ids import build_attempt_ref
from blueflame.model.verdict import Violation
from blueflame.orchestrator.attempts.inspect_result import (
    describe_ending,
    find_audit_gaps,
    find_violations,
    format_gaps,
    format_leftovers,
    read_leftovers,
)
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import WorkerBrief, render_worker
from blueflame.session.attempt_verdict import AttemptFacts, judge_attempt
from blueflame.session.state import Session


def build_worker_prompt(context: SessionContext, session: Session, attempt: Attempt, _base: str) -> str:
    record, settings = session.tasks[attempt.subject], context.settings
    rules = settings.validation
    brief = WorkerBrief(
        project=session.project,
        base_branch=session.base_branch,
        session=session.id,
        task=record.task,
        allowed_paths=session.limits.allowed_paths,
        blocked_paths=session.limits.blocked_paths,
        history=record.history,
        built_on=attempt.built_on,
        enforce_scope=rules.file_scope.enforce,
        commit_pattern=rules.commit_format.pattern,
        commit_example=rules.commit_format.example,
        checks=session.limits.checks,
        require_tests=rules.require_tests.enabled and bool(rules.require_tests.source_patterns),
        naming_style=rules.file_naming.style if rules.file_naming.enforce_for else "",
        naming_globs=rules.file_naming.enforce_for,
        minutes=round(attempt.timeout / 60) or None,
    )
    return render_worker(brief, token_hex(16))


async def read_worker(
    context: SessionContext, _session: Session, handed: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    """Its commits are fetched and kept whatever else is true of them; only then are they judged."""
    attempt, base, outcome, gathered = handed.attempt, handed.base, handed.outcome, handed.gathered
    try:
        found = await asyncio.to_thread(_fetch_result, context, attempt, base)
        left = await asyncio.to_thread(read_leftovers, context, attempt, outcome)
        gaps = await asyncio.to_thread(find_audit_gaps, context, attempt, outcome, gathered)
        broken = await asyncio.to_thread(_find_violations, context, handed, found, left)
    except (WorldError, UsageError) as error:  # what cannot be checked has failed, never passed
        return AttemptOutcome(ending=Ending.POSTCHECK, notes=str(error), base=base), []
    tip, count = (found.tip, len(found.commits)) if isinstance(found, CollectedResult) else (None, 0)
    subject = found.commits[-1].subject if isinstance(found, CollectedResult) and found.commits else ""
    facts = AttemptFacts(
        role=attempt.role,
        reason=outcome.reason.value,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        commits=count,
        violations=len(broken),
        unwatched=len(gaps),
        failure=handed.failure,
    )
    ending = judge_attempt(facts)
    if ending is not Ending.PASSED and tip is not None:
        await asyncio.to_thread(keep_failed_result, context.repo, attempt.session, attempt.subject, attempt.n, tip)
    words = gathered.text if ending is Ending.PASSED else describe_ending(outcome, gathered)
    notes = "\n".join(part for part in (format_gaps(gaps) if gaps else "", words, format_leftovers(left)) if part)
    ended = AttemptOutcome(
        ending=ending, notes=notes, base=base, tip=tip, commits=count, subject=subject, violations=broken
    )
    return ended, []


def _fetch_result(context: SessionContext, attempt: Attempt, base: str) -> CollectedResult | NoResult:
    assert attempt.branch is not None, f"{attempt.id} has no branch"
    checkout = context.paths.checkout(attempt.agent_id)
    ref = build_attempt_ref(attempt.session, attempt.subject, attempt.n)
    return collect_result(context.repo, checkout, branch=attempt.branch, base=base, ref=ref)


def _find_violations(
    context: SessionContext, handed: FinishedAttempt, found: CollectedResult | NoResult, left: Leftovers | None
) -> tuple[Violation, ...]:
    return () if isinstance(found, NoResult) else find_violations(context, handed, found, left)
