"""Build the commit of a changeset: its tasks merged onto the newest base, as landing.mode says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from blueflame.git.command import run_git
from blueflame.git.merging import MergeConflict, MergedTree, create_commit, drop_contained, find_tree, merge_heads
from blueflame.git.rebase import CannotRebase, rebase_in_sequence
from blueflame.git.repository import Repository
from blueflame.git.results import set_ref
from blueflame.model.changeset import Changeset, ChangesetRecord, Conflict
from blueflame.model.ids import build_changeset_ref
from blueflame.session.state import Session

COMMIT_TYPE = re.compile(r"(\w+)\(")
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

    @property
    def changeset(self) -> Changeset:
        return self.record.changeset


def assemble_changeset(inputs: MergeInputs, mode: str) -> MergeCommit | Conflict | CannotRebase:
    """Build the commit and hold it by a ref. After a crash the same commit is built again, so its checks are found."""
    tips = drop_contained(inputs.repo, list_tips(inputs.session, inputs.changeset.tasks))
    folded = _merge_tips(inputs, tips, f"Rehearsal of {inputs.changeset.id}")
    if isinstance(folded, MergeConflict):
        return _build_conflict(inputs.session, inputs.changeset, folded)
    if mode == FAST_FORWARD:
        all_tips = list_tips(inputs.session, inputs.changeset.tasks)
        commit = rebase_in_sequence(inputs.repo, inputs.base, all_tips, folded.tree)
    else:  # the tips as further parents keep the history of each task
        commit = _commit_merge(inputs, folded.tree, (inputs.base,) if mode == SQUASH else (inputs.base, *tips))
    if isinstance(commit, str):
        set_ref(inputs.repo, build_changeset_ref(inputs.session.id, inputs.changeset.id), commit)
    return commit if isinstance(commit, CannotRebase) else MergeCommit(commit, folded.tree)


def trial_merge(inputs: MergeInputs, tasks: Sequence[str]) -> MergeCommit | None:
    """Merge only these tasks of a changeset onto the base, to check them; None where they conflict.

    The same trial gives the same commit every time, so its checks are found after a crash.
    """
    repo, name = inputs.repo, f"Trial of {inputs.changeset.id}"
    folded = _merge_tips(inputs, drop_contained(repo, list_tips(inputs.session, tasks)), name)
    if isinstance(folded, MergeConflict):
        return None
    when = run_git(repo.root, "log", "-1", "--format=@%ct +0000", inputs.base, "--").strip()
    written = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    return MergeCommit(create_commit(repo, folded.tree, (inputs.base,), name, written), folded.tree)


def _merge_tips(inputs: MergeInputs, tips: Sequence[str], message: str) -> MergedTree | MergeConflict:
    known = {(each.ours, each.theirs): find_tree(inputs.repo, each.commit) for each in inputs.record.resolutions}
    return merge_heads(inputs.repo, (inputs.base, *tips), message, known)


def _commit_merge(inputs: MergeInputs, tree: str, parents: Sequence[str]) -> str:
    when = f"@{inputs.record.formed_at:.0f} +0000"
    written = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when} if inputs.record.formed_at else {}
    return create_commit(inputs.repo, tree, parents, _format_message(inputs), written)


def list_tips(session: Session, tasks: Sequence[str]) -> list[str]:
    results = [session.tasks[name].result for name in tasks]
    return [result.sha for result in results if result is not None]


def _build_conflict(session: Session, changeset: Changeset, found: MergeConflict) -> Conflict:
    """The task in conflict is the one whose tip was merged last; `theirs` is never the base."""
    tips = dict(zip(list_tips(session, changeset.tasks), changeset.tasks, strict=True))
    task = tips.get(found.theirs) or changeset.tasks[-1]
    return Conflict(ours=found.ours, theirs=found.theirs, task=task, paths=found.paths, messages=found.messages)


def _format_message(inputs: MergeInputs) -> str:
    """`type(task-ids): title`, as in the default commit format; the type is that of the first task's commit."""
    changeset, tasks = inputs.changeset, inputs.session.tasks
    found = COMMIT_TYPE.match(_read_subject(inputs, changeset.tasks[0]))
    kind = found.group(1) if found else "feat"
    titles = [f"- {name}: {tasks[name].task.title}" for name in changeset.tasks]
    trailers = [f"Blue-Flame-Session: {inputs.session.id}", f"Blue-Flame-Changeset: {changeset.id}"]
    subject = f"{kind}({','.join(changeset.tasks)}): {changeset.title}"
    return "\n".join([subject, "", *titles, "", *trailers, ""])


def _read_subject(inputs: MergeInputs, task: str) -> str:
    result = inputs.session.tasks[task].result
    assert result is not None, f"{task} cannot land: it has no result"
    return result.subject or run_git(inputs.repo.root, "log", "-1", "--format=%s", result.sha, "--")
