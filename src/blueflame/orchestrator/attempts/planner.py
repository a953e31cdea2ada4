"""The plan stage: the planner's prompt, and its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from blueflame.documents.plans import parse_tasks
from blueflame.git.code_map import format_code_map, survey_code
from blueflame.memory.provider import RecallRequest
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.errors import PlanError, WorldError
from blueflame.model.event import Event, PlanFailed
from blueflame.model.task import TaskState
from blueflame.orchestrator.attempts.inspect_result import describe_ending, find_audit_gaps, format_gaps
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import PlannerBrief, render_planner
from blueflame.session.attempt_verdict import AttemptFacts, judge_attempt
from blueflame.session.gates.answers import build_proposal
from blueflame.session.state import Session
from blueflame.text.sanitize import shorten_line


def is_interactive(context: SessionContext, attempt: Attempt) -> bool:
    """Whether it talks with a person: it is meant to, and there is one."""
    return attempt.interactive and context.converse is not None


def build_planner_prompt(context: SessionContext, session: Session, attempt: Attempt, base: str) -> str:
    brief = PlannerBrief(
        project=session.project,
        base_branch=session.base_branch,
        session=session.id,
        request=session.request,
        workers=session.limits.workers,
        allowed_paths=session.limits.allowed_paths,
        blocked_paths=session.limits.blocked_paths,
        checks=session.limits.checks,
        records=tuple(session.tasks[name] for name in sorted(session.tasks)),
        rejected=session.rejected_plan,
        replan_notes=session.replan_notes,
        problems=session.plan_failures,
        hints=_draw_code_map(context, base),
        lessons=_recall_lessons(context, session),
    )
    return render_planner(brief, token_hex(16), interactive=is_interactive(context, attempt))


def _draw_code_map(context: SessionContext, base: str) -> str:
    """A help, not a need: a planner can read the repository itself."""
    budget = context.settings.memory.codebase_tokens
    try:
        return format_code_map(survey_code(context.repo, base), budget) if budget else ""
    except WorldError as error:
        return f"(no map of the code base could be made: {shorten_line(str(error), 200)})"


def _recall_lessons(context: SessionContext, session: Session) -> tuple[str, ...]:
    """Lessons of earlier sessions, or a note that they cannot be read."""
    found = context.memory.recall(
        context.settings.memory.context_tokens, RecallRequest(session=session.id, request=session.request)
    )
    missing = (f"(not all that is known of earlier sessions could be read: {shorten_line(found.note, 200)})",)
    return (*found.lines, *(missing if found.note else ()))


async def read_planner(
    context: SessionContext, session: Session, handed: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    attempt, outcome, gathered = handed.attempt, handed.outcome, handed.gathered
    gaps = await asyncio.to_thread(find_audit_gaps, context, attempt, outcome, gathered)
    facts = AttemptFacts(
        role=attempt.role,
        reason=outcome.reason.value,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        has_output=gathered.output is not None,
        unwatched=len(gaps),
        failure=handed.failure,
    )
    ending = judge_attempt(facts)
    notes = format_gaps(gaps) if gaps else describe_ending(outcome, gathered)
    ended = AttemptOutcome(ending=ending, notes=notes, base=handed.base, output=gathered.output)
    if ending is Ending.PASSED:
        return _propose_plan(session, attempt, ended)
    if ending in (Ending.CANCELLED, Ending.LOST):  # no word about the plan: the rules say when that is too much
        return ended, []
    return ended, [PlanFailed(round=attempt.n, reason=f"{ending.value.replace('_', ' ')}: {ended.notes}".strip(": "))]


def _propose_plan(session: Session, attempt: Attempt, ended: AttemptOutcome) -> tuple[AttemptOutcome, Sequence[Event]]:
    try:
        tasks = parse_tasks(ended.output)
    except PlanError as error:
        return ended, [PlanFailed(round=attempt.n, reason=str(error))]
    landed = {name for name in session.tasks if session.tasks[name].state is TaskState.MERGED}
    fresh = tuple(task for task in tasks if task.id not in landed)
    return ended, [build_proposal(session, fresh, "planner", attempt.n)]
