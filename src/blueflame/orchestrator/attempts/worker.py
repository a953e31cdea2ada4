"""The work stage: the prompt of a worker, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import NamedTuple

from blueflame.checks.postcheck import is_within_reach
from blueflame.git.batch import find_missing_commits
from blueflame.git.merge import CombinedCommit, MergeConflict, combine_commits, join_landed
from blueflame.git.rebase import CannotRebase, rebase_onto
from blueflame.git.repository import Repository
from blueflame.git.results import keep_failed_result, read_diff
from blueflame.git.untrusted.unfinished import commit_unfinished
from blueflame.model.attempt import Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.errors import WorldError
from blueflame.model.event import Event
from blueflame.orchestrator.attempts.fixed_work import read_fixed_work
from blueflame.orchestrator.attempts.hand_off import collect_hand_off
from blueflame.orchestrator.attempts.inspect_result import inspect_commits, may_be_cut_off
from blueflame.orchestrator.attempts.instructions import gather_instructions
from blueflame.orchestrator.attempts.lessons import word_given_lessons
from blueflame.orchestrator.attempts.setup_changes import is_only_setup
from blueflame.orchestrator.attempts.walls import describe_allowed_commands
from blueflame.orchestrator.commit_rules import read_commit_style
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import WorkerBrief, render_worker
from blueflame.paths.locks import parse_task_locks
from blueflame.session.clarifications import list_clarifications
from blueflame.session.foundations import list_landed_below
from blueflame.session.from_settings import list_role_skills
from blueflame.session.hand_offs import list_received
from blueflame.session.requests.messages import list_earlier_messages
from blueflame.session.retries import must_start_over
from blueflame.session.state import Session, may_be_left_as_it_was
from blueflame.text.hand_offs import select_hand_offs
from blueflame.text.sanitize import clean_line
from blueflame.watcher.policy_file import load_policy

MAX_EARLIER_DIFF_BYTES = 30_000


class StartingPoint(NamedTuple):
    """Where a worker starts: its branch at `head`, its files as in `tree`; both are the base unless it continues."""

    head: str
    tree: str


def combine_foundations(repo: Repository, session: Session, attempt: Attempt) -> CombinedCommit | MergeConflict:
    """Merge the base branch with what the attempt builds on, in the object store."""
    names = [foundation.task for foundation in attempt.built_on]
    base = join_landed(repo, session.base_sha, list_landed_below(session, names))
    shas = [foundation.sha for foundation in attempt.built_on]
    if not shas:
        return CombinedCommit(base)
    return combine_commits(repo, base, shas, _format_foundation(session, attempt.subject, names))


def _format_foundation(session: Session, task: str, names: Sequence[str]) -> str:
    """Word a merge that lands with the task as git words its own: linters of subjects leave those alone."""
    title, *others = (clean_line(session.tasks[name].task.title) for name in (task, *names))
    return "\n".join([f"Merge what '{title}' builds on", "", *(f"- {other}" for other in others), ""])


def find_start(repo: Repository, attempt: Attempt, base: str) -> StartingPoint:
    """Replay the earlier work on the base; work that is gone or does not fit there is not continued."""
    earlier = attempt.continues
    if earlier is None or find_missing_commits(repo, filter(None, (earlier.base, earlier.tip, earlier.unfinished))):
        return StartingPoint(base, base)
    head = rebase_onto(repo, earlier.base, earlier.tip, base)
    if isinstance(head, CannotRebase):
        return StartingPoint(base, base)
    tree = rebase_onto(repo, earlier.tip, earlier.unfinished, head) if earlier.unfinished else head
    return StartingPoint(head, head if isinstance(tree, CannotRebase) else tree)


def build_worker_prompt(
    context: SessionContext, session: Session, attempt: Attempt, base: str, ports: range | None = None
) -> str:
    record, settings = session.tasks[attempt.subject], context.settings
    start = find_start(context.repo, attempt, base)
    rules, begun = settings.validation, record.start
    stages = tuple(stage.role for stage in session.find_workflow(record.task).task_stages if stage.duty is Duty.MAKE)
    brief = WorkerBrief(
        project=session.project,
        base_branch=session.base_branch,
        session=session.id,
        task=record.task,
        allowed_paths=session.limits.allowed_paths,
        blocked_paths=session.limits.blocked_paths,
        history=record.history,
        said=list_earlier_messages(session, attempt),
        built_on=attempt.built_on,
        enforce_scope=rules.file_scope.enforce,
        commit_pattern=rules.commit_format.pattern,
        commit_example=rules.commit_format.example,
        commit_subjects=read_commit_style(context.repo, context.settings).examples,
        checks=session.limits.checks,
        commands=describe_allowed_commands(context, attempt),
        skills=list_role_skills(context.settings, attempt.role),
        clarifications=list_clarifications(session, attempt.subject),
        lessons=word_given_lessons(context, session, attempt),
        require_tests=rules.require_tests.enabled and bool(rules.require_tests.source_patterns),
        naming_style=rules.file_naming.style if rules.file_naming.enforce_for else "",
        naming_globs=rules.file_naming.enforce_for,
        instructions=gather_instructions(context, session, parse_task_locks(record.task)),
        earlier_diff=read_diff(context.repo, base, start.tree, MAX_EARLIER_DIFF_BYTES) if start.tree != base else "",
        unfinished=start.tree != start.head,
        role=attempt.role,
        stages=stages if len(stages) > 1 else (),
        made_before=read_diff(context.repo, begun.base, begun.sha, MAX_EARLIER_DIFF_BYTES) if begun else "",
        conversation_of=_find_continued_task(session, attempt),
        is_last=attempt.allocation is not None and attempt.allocation.is_last,
        fixes=read_fixed_work(context, session, attempt.subject),
        hand_offs=select_hand_offs(list_received(session, attempt)),
        ports=ports,
        minutes=round(attempt.timeout / 60) or None,
    )
    return render_worker(brief, token_hex(16))


def _find_continued_task(session: Session, attempt: Attempt) -> str:
    before = session.attempts.get(attempt.allocation.continues) if attempt.allocation else None
    return before.attempt.subject if before else ""


async def read_worker(
    context: SessionContext, session: Session, finished: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    attempt = finished.attempt
    ended = await asyncio.to_thread(inspect_commits, context, session, finished)
    ended = replace(ended, hand_off=await asyncio.to_thread(collect_hand_off, context.repo, finished, ended))
    if ended.ending is Ending.PASSED:
        return ended, []
    if not must_start_over(ended):
        ended = replace(ended, unfinished=await asyncio.to_thread(keep_unfinished, context, finished, ended.tip))
    if ended.ending is Ending.NO_COMMITS and ended.unfinished is None:
        return _judge_empty(session, ended, attempt.subject), []
    if kept := ended.unfinished or ended.tip:
        place = (attempt.session, attempt.subject, attempt.n)
        await asyncio.to_thread(keep_failed_result, context.repo, *place, kept, key=attempt.key)
    return ended, []


def _judge_empty(session: Session, ended: AttemptOutcome, task: str) -> AttemptOutcome:
    """Judge an attempt that left nothing at all: at some stages of some workflows there may be nothing to do."""
    if not may_be_left_as_it_was(session, session.tasks[task]):
        return ended
    return replace(ended, ending=Ending.NOTHING_TO_DO)


def keep_unfinished(context: SessionContext, finished: FinishedAttempt, tip: str | None) -> str | None:
    """Commit what the agent may change and has not committed; the next attempt finds it staged.

    Not if it could not write: a file may be cut off, and the next attempt would take that for its work.
    """
    if may_be_cut_off(context, finished):
        return None
    try:
        policy = load_policy(context.engine.mirror(finished.attempt.id) / "policy.json")
        allowed, blocked = policy.allowed_paths.written, policy.blocked_paths.written
        checkout = context.paths.checkout(finished.attempt.agent_id)
        tip = tip or finished.base
        kept = commit_unfinished(
            context.repo,
            checkout,
            tip,
            lambda path: is_within_reach(path, allowed=allowed, blocked=blocked, locks=policy.scope),
        )
        return None if kept is None or is_only_setup(context, finished, tip, kept) else kept
    except (WorldError, OSError):  # the next attempt starts from the commits
        return None
