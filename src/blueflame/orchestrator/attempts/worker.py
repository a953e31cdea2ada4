"""The work stage: the prompt of a worker, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from blueflame.git.results import keep_failed_result
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.event import Event
from blueflame.orchestrator.attempts.inspect_result import inspect_commits
from blueflame.orchestrator.attempts.instructions import gather_instructions
from blueflame.orchestrator.attempts.walls import describe_allowed_commands
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import WorkerBrief, render_worker
from blueflame.paths.locks import parse_task_locks
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
        commands=describe_allowed_commands(settings),
        require_tests=rules.require_tests.enabled and bool(rules.require_tests.source_patterns),
        naming_style=rules.file_naming.style if rules.file_naming.enforce_for else "",
        naming_globs=rules.file_naming.enforce_for,
        instructions=gather_instructions(context, session, parse_task_locks(record.task)),
        minutes=round(attempt.timeout / 60) or None,
    )
    return render_worker(brief, token_hex(16))


async def read_worker(
    context: SessionContext, _session: Session, finished: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    attempt = finished.attempt
    ended = await asyncio.to_thread(inspect_commits, context, finished)
    if ended.ending is not Ending.PASSED and ended.tip is not None:
        await asyncio.to_thread(
            keep_failed_result, context.repo, attempt.session, attempt.subject, attempt.n, ended.tip
        )
    return ended, []
