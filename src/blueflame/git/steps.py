"""What each commit of a result changes: all of them land, not only the difference between the first and the last.

A result is made by an agent, so every listing is limited: eight tree objects can stand for a million names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from blueflame.git.command import remember_answers, run_git, run_git_capped, split_nul
from blueflame.git.repository import Repository
from blueflame.model.errors import GitFailed
from blueflame.system.process import ProcessResultBytes

GIT_TIMEOUT = 300.0
MAX_COMMITS = 1000
MAX_NAMES = 100_000  # for 300,000 files, git alone needs 20 s to count their lines
MAX_LISTING_BYTES = 64_000_000
DIFF_TREE_ARGS = (
    *("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=none"),
)
HEADERS = re.compile(r"(?:[0-9a-f]+ [0-9a-f]+\n)+")


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
    for sha, *parents in rows:
        foreign = next((parent for parent in parents if parent not in own), None)
        if foreign is not None:
            raise GitFailed(
                f"commit {sha[:12]} merges {foreign[:12]}, which is not part of the result: history of others"
            )
        if not parents:
            raise GitFailed(f"commit {sha[:12]} has no parent: a history that does not begin at {base[:12]}")
    elsewhere = ("--not", base, "--exclude=refs/blueflame/*", "--all")
    new = int(run_git(repo.root, "rev-list", "--count", tip, *elsewhere, timeout=GIT_TIMEOUT))
    if new != len(rows):
        raise GitFailed(
            f"{len(rows) - new} commits of the result are on another branch of {repo.root}: history of others"
        )


def check_names(repo: Repository, base: str, tip: str) -> None:
    """Raise GitFailed if the commits change so many files that comparing them would take minutes.

    Only names are listed here: what they stand for is read later, file by file.
    """
    pairs = "".join(f"{step.parents[0]} {step.tree}\n" for step in list_steps(repo, base, tip)[1:])
    listed = read_listing(repo, "diff-tree", "--stdin", "-r", "-z", "--name-only", "--no-renames", stdin=pairs)
    if (names := listed.count("\0")) > MAX_NAMES:
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


def compare_trees(repo: Repository, pairs: Sequence[tuple[str, str]]) -> list[list[DiffEntry]]:
    """Return for each pair of trees the entries that differ, renames detected."""
    lines = "".join(f"{before} {after}\n" for before, after in pairs)
    options = ("--stdin", "-r", "-M", "-z", "--raw", "--no-abbrev", "--no-relative", "--ignore-submodules=none")
    parts = iter(split_nul(read_listing(repo, "diff-tree", *options, stdin=lines) + "\0"))
    compared: list[list[DiffEntry]] = [[] for _ in pairs]
    at = -1
    for part in parts:  # the names of the pair come before its first entry, or alone if there is no entry
        heads = HEADERS.match(part)
        entry = part[heads.end() :] if heads else part
        at += len(part[: len(part) - len(entry)].splitlines())
        if entry:
            compared[at].append(parse_raw_entry(entry, parts))
    if at != len(pairs) - 1:
        raise GitFailed(f"git diff-tree in {repo.root} compared {at + 1} of {len(pairs)} pairs")
    return compared


def read_listing(repo: Repository, *args: str, stdin: str = "") -> str:
    """Run a git command that lists what a result contains; raise GitFailed if there is too much of it."""
    done = read_capped(repo, *args, max_bytes=MAX_LISTING_BYTES, stdin=stdin)
    if done.truncated:
        most = f"{MAX_LISTING_BYTES // 1_000_000} MB"
        raise GitFailed(f"the result cannot be checked: git {args[0]} lists more than {most} of names or text")
    return done.out.decode("utf-8", "surrogateescape")


def read_capped(repo: Repository, *args: str, max_bytes: int, stdin: str = "") -> ProcessResultBytes:
    """Run git outside the work tree: its .gitattributes decide what git takes for binary, and agents can write them."""
    place = repo.common_dir
    return run_git_capped(
        place, f"--git-dir={place}", *args, max_bytes=max_bytes, stdin=stdin.encode(), timeout=GIT_TIMEOUT
    )


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


def _find_trees(repo: Repository, commits: Sequence[str]) -> dict[str, str]:
    names = "".join(f"{sha}^{{tree}}\n" for sha in commits)
    lines = run_git(repo.root, "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=names).splitlines()
    trees = {
        sha: line.removesuffix(" tree") for sha, line in zip(commits, lines, strict=True) if line.endswith(" tree")
    }
    for sha in commits:
        if sha not in trees:
            raise GitFailed(f"what commit {sha} adds cannot be checked: it is not in {repo.root}")
    return trees
