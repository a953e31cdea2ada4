"""The work stage: what a worker is told, and what is made of its result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from blueflame.model.attempt import Attempt, Ended, Ending
from blueflame.model.errors import GitFailed
from blueflame.model.event import Event
from blueflame.model.ids import attempt_ref
from blueflame.model.verdict import Violation
from blueflame.rules.endings import Facts, judge
from blueflame.rules.postcheck import violations
from blueflame.rules.session import Session
from blueflame.tools.git.results import Collected, Nothing, changes, collect
from blueflame.waves.flame import Flame, Handed
from blueflame.waves.prompting import WorkerBrief, render_worker
from blueflame.waves.words import what_happened


def worker_prompt(flame: Flame, session: Session, attempt: Attempt, _base: str) -> str:
    record, settings = session.tasks[attempt.subject], flame.settings
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


async def read_worker(flame: Flame, session: Session, handed: Handed) -> tuple[Ended, Sequence[Event]]:
    """Its commits are fetched and kept whatever else is true of them; only then are they judged."""
    attempt, base, outcome, gathered = handed.attempt, handed.base, handed.outcome, handed.gathered
    try:
        found = await asyncio.to_thread(_fetch, flame, attempt, base)
        broken = await asyncio.to_thread(_broken_rules, flame, session, attempt, base, found)
    except GitFailed as error:  # a result that git will not take is a failed result, never a pass (E-14)
        return Ended(ending=Ending.POSTCHECK, notes=str(error), base=base), []
    tip, count = (found.tip, len(found.commits)) if isinstance(found, Collected) else (None, 0)
    facts = Facts(
        role=attempt.role,
        reason=outcome.reason.value,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        commits=count,
        violations=len(broken),
    )
    ending = judge(facts)
    notes = what_happened(outcome, gathered) if ending is not Ending.PASSED else gathered.said
    return Ended(ending=ending, notes=notes, base=base, tip=tip, commits=count, violations=broken), []


def _fetch(flame: Flame, attempt: Attempt, base: str) -> Collected | Nothing:
    assert attempt.branch is not None, f"{attempt.id} has no branch"
    checkout = flame.places.checkout(attempt.agent_id)
    ref = attempt_ref(attempt.session, attempt.subject, attempt.n)
    return collect(flame.repo, checkout, branch=attempt.branch, base=base, ref=ref)


def _broken_rules(
    flame: Flame, session: Session, attempt: Attempt, base: str, found: Collected | Nothing
) -> tuple[Violation, ...]:
    if isinstance(found, Nothing):
        return ()
    rules = flame.settings.validation
    return violations(
        changes(flame.repo, base, found.tip),
        found.commits,
        allowed_paths=session.limits.allowed_paths,
        blocked_paths=session.limits.blocked_paths,
        file_locks=session.tasks[attempt.subject].task.file_locks,
        enforce_scope=rules.file_scope.enforce,
        commit_pattern=rules.commit_format.pattern,
        naming_style=rules.file_naming.style,
        naming_globs=rules.file_naming.enforce_for,
        require_tests=rules.require_tests.enabled,
        source_patterns=rules.require_tests.source_patterns,
        test_patterns=rules.require_tests.test_patterns,
        expected_binaries=rules.binaries.expected,
    )
