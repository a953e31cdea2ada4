"""Merge in the object store: no work tree, index or branch is changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from blueflame.git.batch import find_objects
from blueflame.git.command import (
    build_git_error,
    build_identity_environment,
    remember_answers,
    run_git,
    split_nul,
    try_git,
)
from blueflame.git.repository import Repository
from blueflame.model.errors import GitFailed

MERGE_TIMEOUT = 300.0
MAX_DATE_DIGITS = 10  # of seconds: until the year 2286


class CleanMerge(NamedTuple):
    tree: str


class MergeConflict(NamedTuple):
    paths: tuple[str, ...]
    messages: tuple[str, ...]
    ours: str = ""
    theirs: str = ""
    tree: str = ""  # with conflict markers in its files


class CombinedCommit(NamedTuple):
    sha: str


class MergedTree(NamedTuple):
    tree: str  # empty when the commit below has it
    parents: tuple[str, ...]
    sha: str = ""  # a commit that has everything already, so that none needs to be made


ResolvedTrees: TypeAlias = Mapping[tuple[str, str], str]
"""Conflicts resolved by an agent: the tree of one side and the commit of the other -> the resulting tree. In order."""
NOTHING_RESOLVED: ResolvedTrees = {}


def compute_merge(repo: Repository, ours: str, theirs: str) -> CleanMerge | MergeConflict:
    """Return the result of merging two commits, without a commit."""
    args = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
    done = try_git(repo.root, *args, timeout=MERGE_TIMEOUT)
    parts = done.out.split("\0")
    if done.code == 0:
        return CleanMerge(parts[0])
    if done.code != 1 or len(parts) < 2:
        if try_git(repo.root, "merge-base", ours, theirs, timeout=MERGE_TIMEOUT).code == 1:
            raise GitFailed(f"cannot merge {ours} and {theirs} in {repo.root}: they share no history")
        raise build_git_error(repo.root, args, done)
    end = parts.index("", 1)
    paths = tuple(dict.fromkeys(parts[1:end]))
    return MergeConflict(paths, tuple(_parse_messages(iter(parts[end + 1 : -1]))), ours, theirs, parts[0])


@remember_answers(1024)
def find_tree(repo: Repository, sha: str) -> str:
    (found,) = find_objects(repo, (f"{sha}^{{tree}}",))
    if found is None:
        raise GitFailed(f"{sha} is not a commit in {repo.root}: its tree cannot be read")
    return found.sha


@remember_answers(1024)
def digest_tree_without(repo: Repository, sha: str, name: str) -> str:
    """The same for two commits that differ in one file at the top alone."""
    entries = split_nul(run_git(repo.root, "ls-tree", "-z", sha))
    kept = [entry for entry in entries if entry.partition("\t")[2] != name]
    return hashlib.sha256("\0".join(kept).encode("utf-8", "surrogateescape")).hexdigest()


def create_commit(
    repo: Repository, tree: str, parents: Sequence[str], message: str, written: Mapping[str, str] | None = None
) -> str:
    """Create a commit to which no ref points yet. The message goes through stdin: it may be long, or begin with a dash.

    `written` has author, committer and dates as git's variables; by default the person, now.
    """
    flags = [part for parent in parents for part in ("-p", parent)]
    env = {**build_identity_environment(repo.root), **(written or {})}
    return run_git(repo.root, "commit-tree", tree, *flags, "-F", "-", stdin=message, env=env).strip()


def combine_commits(repo: Repository, base: str, shas: Sequence[str], message: str) -> CombinedCommit | MergeConflict:
    """Return one commit that contains base and all of shas: the foundation of a task that depends on several.

    Commits that others contain are left out, so a chain of dependencies needs no merge.
    """
    outcome = merge_heads(repo, drop_contained(repo, list(dict.fromkeys((base, *shas)))), message)
    if isinstance(outcome, MergeConflict):
        return outcome
    return CombinedCommit(outcome.sha or create_commit(repo, outcome.tree, outcome.parents, message))


def join_landed(repo: Repository, base: str, landed: Sequence[str]) -> str:
    """Return a commit with the base's tree that also descends from commits whose content it has: a squash or a rebase
    has landed them as others. It is for merging only, and the same every time."""
    others = [sha for sha in dict.fromkeys(landed) if sha != base]
    heads = drop_contained(repo, [base, *others]) if others else [base]
    if len(heads) == 1 or base not in heads:
        return base
    written = date_like(repo, base)
    return create_commit(repo, find_tree(repo, base), heads, f"{base[:12]} with what has landed in it", written)


def date_like(repo: Repository, sha: str) -> dict[str, str]:
    """The dates of a commit for one that must be the same every time. Some old commits have none that git accepts."""
    when = run_git(repo.root, "log", "-1", "--format=%ct", sha, "--").strip()
    when = when if 0 < len(when) <= MAX_DATE_DIGITS else "0"
    return {"GIT_AUTHOR_DATE": f"@{when} +0000", "GIT_COMMITTER_DATE": f"@{when} +0000"}


def merge_heads(
    repo: Repository, heads: Sequence[str], message: str, resolved: ResolvedTrees = NOTHING_RESOLVED
) -> MergedTree | MergeConflict:
    """Merge the heads into one tree; a commit is made only where a further merge needs one."""
    whole, tree = heads[0], ""
    parents: tuple[str, ...] = (whole,)
    for head in heads[1:]:
        if tree:
            whole = create_commit(repo, tree, parents, message)
        outcome = compute_merge(repo, whole, head)
        if isinstance(outcome, MergeConflict):
            known = _find_resolved(repo, find_tree(repo, whole), head, resolved) if resolved else ""
            if not known:
                return outcome
            outcome = CleanMerge(known)
        tree, parents = outcome.tree, (whole, head)
    return MergedTree(tree, parents) if tree else MergedTree("", parents, whole)


def _find_resolved(repo: Repository, ours: str, theirs: str, resolved: ResolvedTrees) -> str:
    """Return the tree that resolves a conflict: as an agent made it, or with what has changed on our side since."""
    if known := resolved.get((ours, theirs)):
        return known
    earlier = ((tree, made) for (tree, head), made in reversed([*resolved.items()]) if head == theirs)
    return next(filter(None, (_merge_trees(repo, tree, ours, made) for tree, made in earlier)), "")


def _merge_trees(repo: Repository, base: str, ours: str, theirs: str) -> str:
    """Return the tree of a merge with this base; "" for a conflict. git merges commits, so some are made for it."""
    dates = {"GIT_AUTHOR_DATE": "@0 +0000", "GIT_COMMITTER_DATE": "@0 +0000"}
    root = create_commit(repo, base, (), "Base", dates)
    sides = [create_commit(repo, tree, (root,), "Side", dates) for tree in (ours, theirs)]
    outcome = compute_merge(repo, *sides)
    return outcome.tree if isinstance(outcome, CleanMerge) else ""


def drop_contained(repo: Repository, shas: list[str]) -> list[str]:
    """Return the commits that no other contains, in the given order, so that the result is the same every time."""
    if len(shas) == 1:
        return shas
    kept = set(run_git(repo.root, "merge-base", "--independent", *shas, timeout=MERGE_TIMEOUT).split())
    return [sha for sha in shas if sha in kept]


def _parse_messages(parts: Iterator[str]) -> Iterator[str]:
    """Yield the messages; each is the number of paths, the paths, the kind and the text."""
    for count in parts:
        for _ in range(int(count)):
            next(parts)
        kind, text = next(parts), next(parts)
        if kind != "Auto-merging":
            yield text.strip()
