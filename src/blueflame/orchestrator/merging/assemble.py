"""The commit of a changeset: its tasks merged on the newest base, in the form in which it is to land."""

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
    """A changeset and the base that it is to stand on."""

    repo: Repository
    session: Session
    record: ChangesetRecord
    base: str

    @property
    def changeset(self) -> Changeset:
        return self.record.changeset


def assemble_changeset(scene: MergeInputs, mode: str) -> MergeCommit | Conflict | CannotRebase:
    """Build the commit and keep it by a ref. After a crash the same commit is made again, so its checks are found."""
    tips = drop_contained(scene.repo, list_tips(scene.session, scene.changeset.tasks))
    folded = _merge_tips(scene, tips, f"Rehearsal of {scene.changeset.id}")
    if isinstance(folded, MergeConflict):
        return _build_conflict(scene.session, scene.changeset, folded)
    parents = (scene.base,) if mode == SQUASH else (scene.base, *tips)
    commit = _rebase_commits(scene, folded.tree) if mode == FAST_FORWARD else _commit_merge(scene, folded.tree, parents)
    if isinstance(commit, str):
        set_ref(scene.repo, build_changeset_ref(scene.session.id, scene.changeset.id), commit)
    return commit if isinstance(commit, CannotRebase) else MergeCommit(commit, folded.tree)


def trial_merge(scene: MergeInputs, tasks: Sequence[str]) -> MergeCommit | None:
    """The base with only these tasks of a changeset, to see how they do; None where they cannot be merged.

    The same trial is the same commit every time: its checks are found again by its name.
    """
    repo, name = scene.repo, f"Trial of {scene.changeset.id}"
    folded = _merge_tips(scene, drop_contained(repo, list_tips(scene.session, tasks)), name)
    if isinstance(folded, MergeConflict):
        return None
    when = run_git(repo.root, "log", "-1", "--format=@%ct +0000", scene.base, "--").strip()
    written = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    return MergeCommit(create_commit(repo, folded.tree, (scene.base,), name, written), folded.tree)


def _merge_tips(scene: MergeInputs, tips: Sequence[str], message: str) -> MergedTree | MergeConflict:
    known = {(each.ours, each.theirs): find_tree(scene.repo, each.commit) for each in scene.record.resolutions}
    return merge_heads(scene.repo, (scene.base, *tips), message, known)


def _rebase_commits(scene: MergeInputs, tree: str) -> str | CannotRebase:
    return rebase_in_sequence(scene.repo, scene.base, list_tips(scene.session, scene.changeset.tasks), tree)


def _commit_merge(scene: MergeInputs, tree: str, parents: Sequence[str]) -> str:
    """One commit, with the tasks' tips as further parents unless it is squashed: so history tells the truth."""
    when = f"@{scene.record.formed_at:.0f} +0000"
    written = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when} if scene.record.formed_at else {}
    return create_commit(scene.repo, tree, parents, _format_message(scene), written)


def list_tips(session: Session, tasks: Sequence[str]) -> list[str]:
    results = [session.tasks[name].result for name in tasks]
    return [result.sha for result in results if result is not None]


def _build_conflict(session: Session, changeset: Changeset, found: MergeConflict) -> Conflict:
    """The task that does not fit is the one whose tip was to be merged next; a base is never theirs."""
    tips = dict(zip(list_tips(session, changeset.tasks), changeset.tasks, strict=True))
    task = tips.get(found.theirs) or changeset.tasks[-1]
    return Conflict(ours=found.ours, theirs=found.theirs, task=task, paths=found.paths, messages=found.messages)


def _format_message(scene: MergeInputs) -> str:
    """`type(task-ids): title`, as the commit format wants it; the type is the first task's own."""
    changeset, tasks = scene.changeset, scene.session.tasks
    found = COMMIT_TYPE.match(_read_subject(scene, changeset.tasks[0]))
    kind = found.group(1) if found else "feat"
    titles = [f"- {name}: {tasks[name].task.title}" for name in changeset.tasks]
    trailers = [f"Blue-Flame-Session: {scene.session.id}", f"Blue-Flame-Changeset: {changeset.id}"]
    subject = f"{kind}({','.join(changeset.tasks)}): {changeset.title}"
    return "\n".join([subject, "", *titles, "", *trailers, ""])


def _read_subject(scene: MergeInputs, task: str) -> str:
    result = scene.session.tasks[task].result
    assert result is not None, f"{task} is to land without a result"
    return result.subject or run_git(scene.repo.root, "log", "-1", "--format=%s", result.sha, "--")
