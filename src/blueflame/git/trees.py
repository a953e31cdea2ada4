"""The files of a commit. Those of the base are listed by git; of any other commit only the difference is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from blueflame.git.command import remember_answers, run_git, split_nul
from blueflame.git.merge import find_tree
from blueflame.git.repository import SUBMODULE_MODE, Repository
from blueflame.git.steps import compare_trees
from blueflame.model.errors import GitFailed


class TreeEntry(NamedTuple):
    mode: str
    sha: str


def list_tree_files(repo: Repository, sha: str) -> tuple[str, ...]:
    """Return every file of a commit, without submodules."""
    return tuple(name for name, entry in list_tree(repo, sha).items() if entry.mode != SUBMODULE_MODE)


@remember_answers(4)
def list_tree(repo: Repository, sha: str) -> Mapping[str, TreeEntry]:
    """Return every entry of a commit that is not a folder, by its path."""
    if sha != repo.base_sha:
        with suppress(GitFailed):  # the base may be gone, or differ in too much
            return _change_base(repo, sha)
    listed = split_nul(run_git(repo.root, "ls-tree", "-r", "-z", "--full-tree", sha, timeout=300))
    heads = (line.partition("\t") for line in listed)  # git quotes names in a format of one's own
    return {
        path: TreeEntry(mode, blob) for (mode, _, blob), path in ((head.split(" "), path) for head, _, path in heads)
    }


def edit_tree(repo: Repository, sha: str, entries: Mapping[str, TreeEntry | None], folder: Path) -> str:
    """Return the tree of a commit with other entries; None removes one. `folder` is for a temporary index."""
    env = {"GIT_INDEX_FILE": str(folder / "index")}
    none = TreeEntry("0", "0" * len(sha))
    lines = "".join(f"{mode} {blob}\t{path}\0" for path, (mode, blob) in ((p, e or none) for p, e in entries.items()))
    run_git(repo.root, "read-tree", sha, env=env)
    run_git(repo.root, "update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"), env=env)
    return run_git(repo.root, "write-tree", env=env).strip()


def _change_base(repo: Repository, sha: str) -> Mapping[str, TreeEntry]:
    entries = dict(list_tree(repo, repo.base_sha))
    changed = compare_trees(repo, find_tree(repo, repo.base_sha), find_tree(repo, sha))
    for entry in changed:
        if entry.status in "DR":
            entries.pop(entry.old_path or entry.path, None)
    entries |= {entry.path: TreeEntry(entry.mode, entry.sha) for entry in changed if entry.status != "D"}
    return dict(sorted(entries.items()))
