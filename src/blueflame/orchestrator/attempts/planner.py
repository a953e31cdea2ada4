"""The plan stage: the prompt of a planner, and its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex

from blueflame.codebase.draw import format_code_map
from blueflame.codebase.make import survey_code
from blueflame.documents.plans import list_ignored_keys, parse_tasks
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.errors import PlanError, WorldError
from blueflame.model.event import Event, PlanFailed
from blueflame.model.task import TaskState
from blueflame.orchestrator.attempts.inspect_result import find_audit_gaps, judge_output
from blueflame.orchestrator.attempts.instructions import gather_instructions
from blueflame.orchestrator.attempts.lessons import word_given_lessons
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import PlannerBrief, render_planner
from blueflame.session.clarifications import list_clarifications
from blueflame.session.from_settings import list_role_skills
from blueflame.session.gates.answers import build_proposal
from blueflame.session.state import Session
from blueflame.text.sanitize import shorten_line


def is_interactive(context: SessionContext, attempt: Attempt) -> bool:
    """Whether the planner talks with a person: it is configured so, and a person is at the terminal."""
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
        models=session.limits.task_models,
        workflows=tuple(session.limits.task_workflows.values()),
        instructions=gather_instructions(context, session),
        skills=list_role_skills(context.settings, attempt.role),
        clarifications=list_clarifications(session, attempt.subject),
        hints=draw_code_map(context, base),
        lessons=word_given_lessons(context, session, attempt),
    )
    return render_planner(brief, token_hex(16), interactive=is_interactive(context, attempt))


def draw_code_map(context: SessionContext, base: str) -> str:
    """Optional: without it, an agent reads the repository itself."""
    budget = context.settings.memory.codebase_tokens
    try:
        return format_code_map(survey_code(context.repo, base, context.paths.code_map), budget) if budget else ""
    except WorldError as error:
        return f"(no map of the code base could be made: {shorten_line(str(error), 200)})"


async def read_planner(
    context: SessionContext, session: Session, finished: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    attempt = finished.attempt
    gaps = await asyncio.to_thread(find_audit_gaps, context, finished)
    ended = await asyncio.to_thread(judge_output, context, finished, gaps)
    if ended.ending is Ending.PASSED:
        return _propose_plan(session, attempt, ended)
    if ended.ending in (Ending.CANCELLED, Ending.LOST):  # not a failed plan: session/ decides when to give up
        return ended, []
    reason = f"{ended.ending.value.replace('_', ' ')}: {ended.notes}".strip(": ")
    return ended, [PlanFailed(round=attempt.n, reason=reason)]


def _propose_plan(session: Session, attempt: Attempt, ended: AttemptOutcome) -> tuple[AttemptOutcome, Sequence[Event]]:
    try:
        tasks = parse_tasks(ended.output)
    except PlanError as error:
        return ended, [PlanFailed(round=attempt.n, reason=str(error))]
    landed = set(session.list_in_state(TaskState.MERGED, TaskState.VALIDATED))
    fresh = tuple(task for task in tasks if task.id not in landed)
    proposal = build_proposal(session, fresh, "planner", attempt.n)
    ignored = (f"ignored: {words}" for words in list_ignored_keys(ended.output))
    return ended, [replace(proposal, warnings=(*proposal.warnings, *ignored))]
