"""What each commit of a result changes: all of them land, not only the difference between the first and the last.

A result is made by an agent, so every listing is limited: eight tree objects can stand for a million names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import NamedTuple

from blueflame.git.batch import ask, find_objects, read_objects
from blueflame.git.command import read_number, remember_answers, run_git, run_git_capped, split_nul
from blueflame.git.repository import Repository
from blueflame.model.errors import GitFailed
from blueflame.system.piped_process import PipedProcess
from blueflame.system.process import ProcessResultBytes

GIT_TIMEOUT = 300.0
MAX_COMMITS = 1000
MAX_LINE, MAX_COMMIT_BYTES = 50, 1_000_000  # read one by one, without another process
MAX_NAMES = 100_000  # for 300,000 files, git alone needs 20 s to count their lines
MAX_LISTING_BYTES = 64_000_000
DIFF_TREE_ARGS = (
    *("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=none"),
)
ENTRIES = (*DIFF_TREE_ARGS, "--stdin", "-z", "--raw", "--no-abbrev")
COUNTED_ENTRIES = (*ENTRIES, "--numstat")
NAMES = ("diff-tree", "--stdin", "-r", "-z", "--name-only", "--no-renames")


class DiffEntry(NamedTuple):
    status: str
    path: str
    old_path: str | None
    mode: str
    sha: str
    old_mode: str
    old_sha: str


class Step(NamedTuple):
    """A tree to be compared with the trees of its parents."""

    commit: str  # empty: the whole result against its base
    tree: str
    parents: tuple[str, ...]


def check_history(repo: Repository, base: str, tip: str) -> None:
    """Raise GitFailed unless the result consists of the agent's own commits, in one history that begins at the base.

    An agent can read all our objects, so it could put the commits of a private branch into its history.
    """
    rows = _list_parents(repo, base, tip)
    own = {base, *(sha for sha, *_ in rows)}
    if not any(base in parents for _, *parents in rows):
        raise GitFailed(f"commit {tip[:12]} does not contain {base}, the commit it started from: history was rewritten")
    for sha, *parents in rows:
        foreign = next((parent for parent in parents if parent not in own), None)
        if foreign is not None:
            raise GitFailed(
                f"commit {sha[:12]} merges {foreign[:12]}, which is not part of the result: history of others"
            )
        if not parents:
            raise GitFailed(f"commit {sha[:12]} has no parent: a history that does not begin at {base[:12]}")
    elsewhere = ("--not", base, "--exclude=refs/blueflame/*", "--all")
    new = read_number(repo.root, "rev-list", "--count", tip, *elsewhere, timeout=GIT_TIMEOUT)
    if new != len(rows):
        raise GitFailed(
            f"{len(rows) - new} commits of the result are on another branch of {repo.root}: history of others"
        )


def check_names(repo: Repository, base: str, tip: str) -> None:
    """Raise GitFailed if the commits change so many files that comparing them would take minutes.

    Only names are listed here: what they stand for is read later, file by file.
    """
    steps = list_steps(repo, base, tip)[1:]
    names = sum(len(list_differences(repo, NAMES, step.parents[0], step.tree)) for step in steps)
    if names > MAX_NAMES:
        raise GitFailed(f"the result changes {names} files, commit by commit; at most {MAX_NAMES} can be checked")


@remember_answers(32)
def list_steps(repo: Repository, base: str, tip: str) -> tuple[Step, ...]:
    """Return the whole result as one step, then every commit of it, oldest first."""
    rows = _list_parents(repo, base, tip)
    trees = _find_trees(repo, sorted({base, tip, *(sha for row in rows for sha in row)}))
    nothing = hashlib.new("sha1" if len(base) == 40 else "sha256", b"tree 0\0", usedforsecurity=False).hexdigest()
    return (
        Step("", trees[tip], (trees[base],)),
        *(Step(sha, trees[sha], tuple(trees[parent] for parent in of) or (nothing,)) for sha, *of in rows),
    )


@remember_answers(8)
def compare_trees(repo: Repository, before: str, after: str) -> tuple[DiffEntry, ...]:
    """Return the entries in which two trees differ, renames detected."""
    parts = iter(list_differences(repo, ENTRIES, before, after))
    return tuple(parse_raw_entry(part, parts) for part in parts)


def list_differences(repo: Repository, args: tuple[str, ...], before: str, after: str) -> tuple[str, ...]:
    """Return what `git diff-tree --stdin -z` lists for two trees; raise GitFailed if there is too much of it."""

    def compare(git: PipedProcess) -> bytes:
        end = f"end-{token_hex(16)}\n".encode()  # git repeats a line that names no object; no file can have this name
        git.send(f"{before} {after}\n".encode() + end, timeout=GIT_TIMEOUT)
        try:
            return git.read_until(end, MAX_LISTING_BYTES)
        except OverflowError:
            raise build_listing_error("diff-tree") from None

    heading, _, listed = ask(repo, args, compare).decode("utf-8", "surrogateescape").partition("\n")
    if heading != f"{before} {after}":
        raise GitFailed(f"git diff-tree in {repo.root} did not compare {before} with {after}: one of them is no tree")
    return split_nul(listed)


def build_listing_error(command: str) -> GitFailed:
    most = f"{MAX_LISTING_BYTES // 1_000_000} MB"
    return GitFailed(f"the result cannot be checked: git {command} lists more than {most} of names or text")


def read_capped(repo: Repository, *args: str, max_bytes: int) -> ProcessResultBytes:
    """Run git outside the work tree: its .gitattributes decide what git takes for binary, and agents can write them."""
    place = repo.common_dir
    return run_git_capped(place, f"--git-dir={place}", *args, max_bytes=max_bytes, timeout=GIT_TIMEOUT)


def parse_raw_entry(head: str, rest: Iterator[str]) -> DiffEntry:
    """Parse `:100644 100644 <sha> <sha> R086`; the old name (of a rename) and the name follow in `rest`."""
    old_mode, mode, old_sha, sha, letter = head.removeprefix(":").split(" ")
    first = next(rest)
    if letter[0] in "RC":
        return DiffEntry(letter[0], next(rest), first, mode, sha, old_mode, old_sha)
    return DiffEntry(letter[0], first, None, mode, sha, old_mode, old_sha)


@remember_answers(32)
def _list_parents(repo: Repository, base: str, tip: str) -> Sequence[Sequence[str]]:
    """Return each commit of the result with its parents, oldest first."""
    if (line := _walk_line(repo, base, tip)) is not None:
        return line
    args = (
        "rev-list",
        "--reverse",
        "--topo-order",
        "--parents",
        f"--max-count={MAX_COMMITS + 1}",
        f"{base}..{tip}",
        "--",
    )
    rows = [line.split() for line in run_git(repo.root, *args, timeout=GIT_TIMEOUT).splitlines()]
    if len(rows) > MAX_COMMITS:
        raise GitFailed(f"the result has more than {MAX_COMMITS} commits; make fewer, or squash them")
    return rows


def _walk_line(repo: Repository, base: str, tip: str) -> Sequence[Sequence[str]] | None:
    """Return the commits of a short line that ends at the base, as most results are; None for any other history."""
    rows: list[tuple[str, str]] = []
    sha = tip
    while sha != base:
        parents = _read_parents(repo, sha)
        if len(parents) != 1 or len(rows) == MAX_LINE:
            return None
        rows.append((sha, parents[0]))
        sha = parents[0]
    return rows[::-1]


def _read_parents(repo: Repository, sha: str) -> list[str]:
    """Return the parents of a commit; none of a commit so large that it is not read for them."""
    (found,) = find_objects(repo, (sha,))
    if found is None or found.kind != "commit" or found.size > MAX_COMMIT_BYTES:
        return []
    headers = read_objects(repo, (found.sha,))[found.sha].partition(b"\n\n")[0]
    return [line[7:].decode("ascii", "replace") for line in headers.split(b"\n") if line.startswith(b"parent ")]


def _find_trees(repo: Repository, commits: Sequence[str]) -> dict[str, str]:
    found = find_objects(repo, [f"{sha}^{{tree}}" for sha in commits])
    trees = {sha: tree.sha for sha, tree in zip(commits, found, strict=True) if tree is not None}
    for sha in commits:
        if sha not in trees:
            raise GitFailed(f"what commit {sha} adds cannot be checked: it is not in {repo.root}")
    return trees
