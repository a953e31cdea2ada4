"""Rebase, reword and cut commits and revert landings, in the object store, like merges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from blueflame.git.command import run_git
from blueflame.git.merge import MergeConflict, compute_merge, create_commit, find_tree
from blueflame.git.repository import Repository
from blueflame.git.trees import edit_tree, list_tree

TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: .+")
LOG_FORMAT = "%H%x00%P%x00%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B"


class CannotRebase(NamedTuple):
    """The commits cannot be rebased; `reason` says which one, and why."""

    reason: str
    tip: str = ""  # that the commit belongs to; empty when that is unknown


class _LoggedCommit(NamedTuple):
    sha: str
    parents: tuple[str, ...]
    message: str
    written: dict[str, str]
    reworded: bool = False

    @property
    def parent(self) -> str:
        return self.parents[0]


def rebase_in_sequence(
    repo: Repository,
    base: str,
    tips: Sequence[str],
    tree: str,
    *,
    trailers: Sequence[Sequence[str]] = (),
    landed: Sequence[str] = (),
) -> str | CannotRebase:
    """Replay the tips' commits on base, one after the other, and return the last; together they must give `tree`.

    `landed`: commits whose content the base has already, as others.

    A commit whose parent is right is kept, unless it lacks one of the `trailers` of its tip. Merge commits are left
    out: what they merged is one sequence now. Dates are kept: a repetition after a crash makes the same commits.
    """
    head = _replay_commits(repo, (base, *landed), tips, onto=base, trailers=trailers)
    if not isinstance(head, CannotRebase) and find_tree(repo, head) != tree:
        return CannotRebase("its commits, rebased, do not give the tree that was merged and checked")
    return head


def rebase_onto(repo: Repository, base: str, tip: str, onto: str) -> str | CannotRebase:
    """Replay the commits from base to tip on another base, and return the last."""
    return _replay_commits(repo, (base,), (tip,), onto=onto)


def reword_commits(repo: Repository, base: str, tip: str, reword: Callable[[str], str]) -> str:
    """Make the commits from base to tip again with other messages, and return the last; their trees stay.

    Authors and dates are kept: a repetition makes the same commits.
    """
    return _remake_commits(repo, base, tip, lambda commit: (find_tree(repo, commit.sha), reword(commit.message)))


def reset_paths(repo: Repository, base: str, tip: str, paths: Iterable[str]) -> str:
    """Make the commits from base to tip again without their changes of these paths, and return the last.

    Commits that changed nothing else are left out, so that it may be the base. Otherwise as `reword_commits`.
    """
    at_base = list_tree(repo, base)
    entries = {path: at_base.get(path) for path in paths}
    with TemporaryDirectory(prefix="blueflame-commits-") as folder:
        index = Path(folder)
        return _remake_commits(
            repo, base, tip, lambda commit: (edit_tree(repo, commit.sha, entries, index), commit.message)
        )


def _remake_commits(repo: Repository, base: str, tip: str, remake: Callable[[_LoggedCommit], tuple[str, str]]) -> str:
    """Make commits again with the trees and messages that `remake` gives; one that becomes empty is left out."""
    made: dict[str, str] = {}
    for commit in _read_log(repo, tip, f"^{base}"):
        parents = tuple(dict.fromkeys(made.get(sha, sha) for sha in commit.parents))
        tree, message = remake(commit)
        was = find_tree(repo, commit.sha)
        if tree != was and [tree] == [find_tree(repo, sha) for sha in parents]:
            made[commit.sha] = parents[0]
        elif tree != was or parents != commit.parents or message.strip() != commit.message.strip():
            made[commit.sha] = create_commit(repo, tree, parents, message, commit.written)
    return made.get(tip, tip)


def _replay_commits(
    repo: Repository, present: Sequence[str], tips: Sequence[str], *, onto: str, trailers: Sequence[Sequence[str]] = ()
) -> str | CannotRebase:
    head = onto
    for tip, commit in _list_commits(repo, present, tips, trailers):
        replayed = commit.sha if commit.parent == head and not commit.reworded else _replay_commit(repo, commit, head)
        if isinstance(replayed, CannotRebase):
            return replayed._replace(tip=tip)
        head = replayed
    return head


def _replay_commit(repo: Repository, commit: _LoggedCommit, head: str) -> str | CannotRebase:
    onto = find_tree(repo, head)
    # merge needs the commit's parent as the common ancestor: so the new base is committed as another child of it
    place = create_commit(repo, onto, (commit.parent,), "the base on which a commit is replayed", commit.written)
    outcome = compute_merge(repo, place, commit.sha)
    if isinstance(outcome, MergeConflict):
        return CannotRebase(f"commit {commit.sha[:12]} conflicts in {', '.join(outcome.paths)} when it is replayed")
    if outcome.tree == onto:
        return head
    return create_commit(repo, outcome.tree, (head,), commit.message, commit.written)


def _list_commits(
    repo: Repository, present: Sequence[str], tips: Sequence[str], trailers: Sequence[Sequence[str]]
) -> Iterator[tuple[str, _LoggedCommit]]:
    """Yield the commits with their tips, oldest first, one task after the other, each once."""
    for n, tip in enumerate(tips):
        known = [f"^{sha}" for sha in (*present, *tips[:n])]
        for commit in _read_log(repo, "--no-merges", tip, *known):
            yield tip, _add_trailers(commit, trailers[n] if trailers else ())


def _read_log(repo: Repository, *which: str) -> Iterator[_LoggedCommit]:
    """Yield commits, oldest first."""
    args = ("log", "-z", "--reverse", "--topo-order", "--date=raw", "--encoding=UTF-8", f"--format={LOG_FORMAT}%x00")
    parts = run_git(repo.root, *args, *which, "--", timeout=300).split("\0")
    yield from (_parse_commit(parts[at : at + 9]) for at in range(0, len(parts) - 9, 10))


def _add_trailers(commit: _LoggedCommit, trailers: Sequence[str]) -> _LoggedCommit:
    """Add what the message does not end with yet. Trailers follow an empty line, or other trailers."""
    message = commit.message.rstrip("\n")
    missing = [line for line in trailers if line not in message.split("\n")]
    if not missing:
        return commit
    gap = "\n" if TRAILER.fullmatch(message.split("\n")[-1]) and "\n" in message else "\n\n"
    return commit._replace(message=message + gap + "\n".join(missing) + "\n", reworded=True)


def _parse_commit(parts: Sequence[str]) -> _LoggedCommit:
    sha, parents, name, email, date, committer, committer_email, committed, message = parts
    written = {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": committer,
        "GIT_COMMITTER_EMAIL": committer_email,
        "GIT_COMMITTER_DATE": committed,
    }
    return _LoggedCommit(sha, tuple(parents.split(" ")), message, written)


def revert_range(repo: Repository, head: str, *, before: str, after: str, message: str) -> str | MergeConflict:
    """Commit on `head` a revert of what came between two of its ancestors; MergeConflict if later work needs it."""
    back = create_commit(repo, find_tree(repo, before), (after,), "the state before")
    outcome = compute_merge(repo, head, back)
    if isinstance(outcome, MergeConflict):
        return outcome
    return create_commit(repo, outcome.tree, (head,), message)
