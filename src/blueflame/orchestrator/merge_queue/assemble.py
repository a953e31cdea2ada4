"""Build the commit of a changeset: its tasks merged onto the newest base, as landing.mode says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from blueflame.git.command import run_git
from blueflame.git.merge import (
    MergeConflict,
    MergedTree,
    create_commit,
    date_like,
    drop_contained,
    find_tree,
    join_landed,
    merge_heads,
)
from blueflame.git.rebase import CannotRebase, rebase_in_sequence
from blueflame.git.repository import Repository
from blueflame.git.results import set_ref
from blueflame.model.changeset import Changeset, ChangesetRecord, Conflict
from blueflame.model.ids import build_changeset_ref
from blueflame.orchestrator.commit_rules import DEFAULT_RULES, CommitRules, find_task_ticket
from blueflame.session.clarifications import list_assumptions
from blueflame.session.foundations import list_landed_below
from blueflame.session.state import Session
from blueflame.text.commit_style import SubjectRule, fit_subject, format_subject
from blueflame.text.sanitize import clean_line, shorten_line

MAX_TRAILER_CHARS = 400
SAFE_COMPONENT = re.compile(r"[\w.-]{1,30}", re.ASCII)
COMMON_FOLDERS = frozenset({"src", "lib", "test", "tests", "docs", "pkg", "packages", "internal", "app", "apps"})
SQUASH, FAST_FORWARD, PULL_REQUEST = "squash", "fast-forward", "pull-request"


class MergeCommit(NamedTuple):
    commit: str
    tree: str


class MergeInputs(NamedTuple):
    """A changeset and the base that it is merged onto."""

    repo: Repository
    session: Session
    record: ChangesetRecord
    base: str
    rules: CommitRules = DEFAULT_RULES

    @property
    def changeset(self) -> Changeset:
        return self.record.changeset


def assemble_changeset(inputs: MergeInputs, mode: str) -> MergeCommit | Conflict | CannotRebase:
    """Build the commit and hold it by a ref. After a crash the same commit is built again, so its checks are found."""
    tips = drop_contained(inputs.repo, list_tips(inputs.session, inputs.changeset.tasks))
    folded = _merge_tips(inputs, tips, f"Rehearsal of {inputs.changeset.id}")
    ref = build_changeset_ref(inputs.session.id, inputs.changeset.id)
    if isinstance(folded, MergeConflict):
        set_ref(inputs.repo, ref, folded.ours)  # a merger starts from it
        return _build_conflict(inputs.session, inputs.changeset, folded)
    if mode == FAST_FORWARD:
        all_tips = list_tips(inputs.session, inputs.changeset.tasks)
        trailers, landed = _list_task_trailers(inputs), _list_landed(inputs)
        commit = rebase_in_sequence(inputs.repo, inputs.base, all_tips, folded.tree, trailers=trailers, landed=landed)
    else:  # the tips as further parents keep the history of each task
        commit = _commit_merge(inputs, folded.tree, (inputs.base,) if mode == SQUASH else (inputs.base, *tips))
    if isinstance(commit, str):
        set_ref(inputs.repo, ref, commit)
    return commit if isinstance(commit, CannotRebase) else MergeCommit(commit, folded.tree)


def merge_some(inputs: MergeInputs, tasks: Sequence[str]) -> MergeCommit | None:
    """Merge only these tasks of a changeset onto the base, to check them; None where they conflict.

    The same tasks give the same commit every time, so its checks are found after a crash.
    """
    repo, name = inputs.repo, f"Trial of {inputs.changeset.id}"
    folded = _merge_tips(inputs, drop_contained(repo, list_tips(inputs.session, tasks)), name)
    if isinstance(folded, MergeConflict):
        return None
    written = date_like(repo, inputs.base)
    return MergeCommit(create_commit(repo, folded.tree, (inputs.base,), name, written), folded.tree)


def _merge_tips(inputs: MergeInputs, tips: Sequence[str], message: str) -> MergedTree | MergeConflict:
    known = {(each.ours, each.theirs): find_tree(inputs.repo, each.commit) for each in inputs.record.resolutions}
    ours = join_landed(inputs.repo, inputs.base, _list_landed(inputs))
    return merge_heads(inputs.repo, (ours, *tips), message, known)


def _list_landed(inputs: MergeInputs) -> tuple[str, ...]:
    return list_landed_below(inputs.session, inputs.changeset.tasks)


def _commit_merge(inputs: MergeInputs, tree: str, parents: Sequence[str]) -> str:
    when = f"@{inputs.record.formed_at:.0f} +0000"
    written = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when} if inputs.record.formed_at else {}
    return create_commit(inputs.repo, tree, parents, format_landing_message(inputs), {**inputs.rules.author, **written})


def _list_task_trailers(inputs: MergeInputs) -> list[tuple[str, ...]]:
    """The trailers of the commits of each task, in the order of `list_tips`."""
    done = [name for name in inputs.changeset.tasks if inputs.session.tasks[name].result is not None]
    how = inputs.rules.agent
    return [
        (
            f"Blue-Flame-Task: {name}",
            *_list_agent_trailers(inputs.session, (name,), how),
            *_list_assumption_trailers(inputs.session, (name,)),
        )
        for name in done
    ]


def _list_assumption_trailers(session: Session, tasks: Sequence[str]) -> list[str]:
    """What agents assumed because no person answered their question."""
    found = [f"{name} {assumed}" for name in tasks for assumed in list_assumptions(session, name)]
    return [f"Blue-Flame-Assumption: {shorten_line(each, MAX_TRAILER_CHARS)}" for each in found]


def list_tips(session: Session, tasks: Sequence[str]) -> list[str]:
    results = [session.tasks[name].result for name in tasks]
    return [result.sha for result in results if result is not None]


def _build_conflict(session: Session, changeset: Changeset, found: MergeConflict) -> Conflict:
    """The task in conflict is the one whose tip was merged last; `theirs` is never the base."""
    tips = dict(zip(list_tips(session, changeset.tasks), changeset.tasks, strict=True))
    task = tips.get(found.theirs) or changeset.tasks[-1]
    return Conflict(ours=found.ours, theirs=found.theirs, task=task, paths=found.paths, messages=found.messages)


def format_landing_message(inputs: MergeInputs) -> str:
    """Word the commit that lands as the project words its own; what belongs to Blue Flame is in trailers."""
    changeset, tasks, rules = inputs.changeset, inputs.session.tasks, inputs.rules
    titles = [f"- {clean_line(tasks[name].task.title)}" for name in changeset.tasks]
    trailers = [
        *(f"Blue-Flame-Task: {name}" for name in changeset.tasks),
        f"Blue-Flame-Session: {inputs.session.id}",
        f"Blue-Flame-Changeset: {changeset.id}",
        *_list_agent_trailers(inputs.session, changeset.tasks, rules.agent),
        *_list_assumption_trailers(inputs.session, changeset.tasks),
    ]
    body = [*titles, ""] if len(titles) > 1 else []
    return "\n".join([_format_subject(inputs), "", *body, *trailers, ""])


def _format_subject(inputs: MergeInputs) -> str:
    changeset, rules = inputs.changeset, inputs.rules
    title = clean_line(changeset.title)  # a planner's words: a line break in them could pass for a trailer
    written = _read_subject(inputs, changeset.tasks[0])
    locks = [lock for name in changeset.tasks for lock in inputs.session.tasks[name].task.file_locks]
    rule = SubjectRule(
        style=rules.read_style(),
        pattern=rules.pattern,
        example=rules.example,
        tasks=",".join(changeset.tasks),
        written=written,
        scope=_find_component(locks),
        ticket=find_task_ticket(inputs.session, changeset.tasks),
    )
    subject = format_subject(rule.style, title, written=written, scope=rule.scope, ticket=rule.ticket)
    if not rule.pattern or rule.is_kept(subject):
        return subject
    fitted = fit_subject(rule, title)
    return fitted if rule.is_kept(fitted) else written.strip()  # the agent's own has passed the postcheck


def _find_component(locks: Sequence[str]) -> str:
    """The folder that all locks share, by its name; "" when they share none."""
    folders = [lock.rstrip("/").split("/") if lock.endswith("/") else lock.split("/")[:-1] for lock in locks]
    shared = [parts[0] for parts in zip(*folders, strict=False) if len(set(parts)) == 1]
    return shared[-1] if shared and SAFE_COMPONENT.fullmatch(shared[-1]) and shared[-1] not in COMMON_FOLDERS else ""


def _list_agent_trailers(session: Session, tasks: Sequence[str], how: str) -> Iterator[str]:
    for name in tasks:
        result = session.tasks[name].result
        record = session.attempts.get(result.attempt) if result else None
        if record is not None and how != "none":
            attempt = record.attempt
            program = " ".join(part for part in (attempt.runtime, attempt.model) if part)
            yield (
                f"Co-authored-by: {program} <{attempt.agent_id}@agents.invalid>"
                if how == "co-author"
                else f"Blue-Flame-Agent: {attempt.agent_id} ({program})"
            )


def _read_subject(inputs: MergeInputs, task: str) -> str:
    result = inputs.session.tasks[task].result
    assert result is not None, f"{task} cannot land: it has no result"
    return result.subject or run_git(inputs.repo.root, "log", "-1", "--format=%s", result.sha, "--")
