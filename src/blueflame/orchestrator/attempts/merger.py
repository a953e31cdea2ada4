"""A merger gets one conflict to resolve; its result passes the same walls as that of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex

from blueflame.checks.merge_losses import find_leftover_markers, format_conflicts
from blueflame.checks.postcheck import OUTSIDE_SCOPE
from blueflame.documents.verdicts import VerdictError, parse_verdict
from blueflame.git.blobs import read_files_at
from blueflame.git.merge import MergeConflict, compute_merge, create_commit, find_tree
from blueflame.git.repository import Repository
from blueflame.git.results import list_changes
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.changeset import ChangesetState, Conflict, Resolution
from blueflame.model.errors import NoStartingPoint
from blueflame.model.event import ConflictResolved, Event
from blueflame.model.verdict import Verdict, VerdictStatus, Violation
from blueflame.orchestrator.attempts.inspect_result import inspect_commits
from blueflame.orchestrator.attempts.instructions import gather_instructions
from blueflame.orchestrator.attempts.lessons import word_given_lessons
from blueflame.orchestrator.attempts.validator import list_file_changes
from blueflame.orchestrator.attempts.walls import describe_allowed_commands
from blueflame.orchestrator.commit_rules import read_commit_style
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.prompts import MergeBranch, MergeGroup, MergerBrief, render_merger
from blueflame.paths.locks import split_path
from blueflame.session.changesets.queue import give_task_back
from blueflame.session.clarifications import list_clarifications
from blueflame.session.from_settings import list_role_skills
from blueflame.session.retries import truncate_text
from blueflame.session.state import Session


def prepare_merge(repo: Repository, session: Session, changeset: str) -> str:
    """Commit the merge as far as git gets: the files in conflict have markers in them."""
    conflict = find_conflict(session, changeset)
    outcome = compute_merge(repo, conflict.ours, conflict.theirs)
    if not isinstance(outcome, MergeConflict):
        raise NoStartingPoint(f"{changeset} is no longer in conflict: {conflict.theirs[:12]} merges by itself")
    message = f"Conflict of {changeset} in {', '.join(conflict.paths)}"
    return create_commit(repo, outcome.tree, (conflict.ours, conflict.theirs), message)


def find_conflict(session: Session, changeset: str) -> Conflict:
    conflict = session.changesets[changeset].conflict
    if conflict is None:
        raise NoStartingPoint(f"{changeset} is not in conflict any more")
    return conflict


def build_merger_prompt(context: SessionContext, session: Session, attempt: Attempt, base: str) -> str:
    changeset, settings = session.changesets[attempt.subject].changeset, context.settings
    conflict = find_conflict(session, attempt.subject)
    branches = [_describe_branch(context.repo, session, name) for name in changeset.tasks]
    brief = MergerBrief(
        project=session.project,
        base_branch=session.base_branch,
        session=session.id,
        base=base,
        groups=(MergeGroup(name=changeset.group, branches=tuple(branches), after=changeset.after),),
        skills=list_role_skills(context.settings, attempt.role),
        clarifications=list_clarifications(session, attempt.subject),
        lessons=word_given_lessons(context, session, attempt),
        ours=conflict.ours,
        theirs=conflict.theirs,
        task=conflict.task,
        conflicts=conflict.paths,
        conflict_text=format_conflicts(read_files_at(context.repo, base, conflict.paths)),
        messages=conflict.messages,
        blocked_paths=session.limits.blocked_paths,
        commit_pattern=settings.validation.commit_format.pattern,
        commit_example=settings.validation.commit_format.example,
        commit_subjects=read_commit_style(context.repo, context.settings).examples,
        instructions=gather_instructions(context, session, [split_path(path) for path in conflict.paths]),
        checks=session.limits.checks,
        commands=describe_allowed_commands(context, attempt),
    )
    return render_merger(brief, token_hex(16))


def _describe_branch(repo: Repository, session: Session, name: str) -> MergeBranch:
    record = session.tasks[name]
    assert record.result is not None, f"{name} is to be merged without a result"
    files = list_file_changes(repo, record.result.base, record.result.sha)
    return MergeBranch(task=record.task, sha=record.result.sha, files=files)


async def read_merger(
    context: SessionContext, session: Session, finished: FinishedAttempt
) -> tuple[AttemptOutcome, Sequence[Event]]:
    """Judge a merger by its commits, like a worker. Its verdict counts only when it reports that it cannot be done."""
    attempt, gathered = finished.attempt, finished.gathered
    try:
        conflict = find_conflict(session, attempt.subject)
    except NoStartingPoint as error:
        return AttemptOutcome(ending=Ending.POSTCHECK, notes=str(error), base=finished.base), []

    def find_more(tip: str) -> Iterator[Violation]:
        yield from _find_changes_elsewhere(context.repo, finished.base, tip, conflict)
        yield from _find_markers(context.repo, tip, conflict)

    ended = await asyncio.to_thread(inspect_commits, context, session, finished, find_more)
    if session.changesets[attempt.subject].state is not ChangesetState.CONFLICTED:
        return ended, []
    verdict = _read_verdict(gathered.output, attempt.agent_id)
    if verdict is not None and verdict.status is VerdictStatus.FAIL and ended.ending in CAN_DECLINE:
        ended = replace(ended, ending=Ending.PASSED, output=gathered.output)
        return ended, [give_task_back(session, attempt.subject, conflict, _format_refusal(verdict))]
    if ended.ending is not Ending.PASSED or ended.tip is None:
        return ended, []
    resolution = Resolution(
        ours=await asyncio.to_thread(find_tree, context.repo, conflict.ours),
        theirs=conflict.theirs,
        commit=ended.tip,
        by=attempt.agent_id,
        notes=truncate_text(verdict.notes if verdict else gathered.text, MAX_NOTES_CHARS),
        paths=conflict.paths,
    )
    return ended, [ConflictResolved(changeset=attempt.subject, resolution=resolution)]


CAN_DECLINE = frozenset({Ending.PASSED, Ending.NO_COMMITS})
"""Endings after which a merger may decline: it worked, and reported that both sides cannot be kept."""
MAX_NOTES_CHARS = 600


def _format_refusal(verdict: Verdict) -> str:
    return "\n".join(("the merger says that both sides cannot be kept: " + verdict.notes, *verdict.issues))


def _read_verdict(output: Mapping[str, object] | None, by: str) -> Verdict | None:
    try:
        return None if output is None else parse_verdict(output, by=by)
    except VerdictError:
        return None


def _find_changes_elsewhere(repo: Repository, base: str, tip: str, conflict: Conflict) -> Iterator[Violation]:
    """A merger changes only files in conflict, even where the configuration does not enforce scopes."""
    for change in list_changes(repo, base, tip):
        for path in change.paths:
            if path not in conflict.paths:
                yield Violation(rule=OUTSIDE_SCOPE, path=path, detail="it is not in conflict")


def _find_markers(repo: Repository, tip: str, conflict: Conflict) -> Iterator[Violation]:
    sides = [read_files_at(repo, sha, conflict.paths) for sha in (conflict.ours, conflict.theirs)]
    return find_leftover_markers(conflict.paths, read_files_at(repo, tip, conflict.paths), sides)
