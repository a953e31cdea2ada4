"""Keep what an agent left uncommitted as a commit of ours, so that the next attempt can continue.

No git process reads the agent's folder: contents are read as plain files (live_changes) and written as objects from
copies of our own.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from blueflame.git.checkouts import get_fetch_path
from blueflame.git.command import run_git
from blueflame.git.merge import create_commit
from blueflame.git.repository import Repository
from blueflame.git.trees import TreeEntry, edit_tree
from blueflame.git.untrusted.live_changes import IgnoreCache, LiveCheckout, read_beneath

MAX_FILES = 1_000  # more is not an agent's unfinished work
MESSAGE = "Unfinished work, kept by Blue Flame"


def commit_unfinished(repo: Repository, checkout: Path, tip: str, keeps: Callable[[str], bool]) -> str | None:
    """Commit, as a child of `tip`, the changed files that `keeps` accepts; None when there are none.

    Links, large files and what cannot be read are left out.
    """
    changes = LiveCheckout(repo, checkout, tip, IgnoreCache(repo)).find_changes()
    if not (checkout / ".git").exists():  # the checkout was removed, and what is missing is no work of the agent
        return None
    kept = {name: change for name, change in sorted(changes.items()) if keeps(name)}
    if not 0 < len(kept) <= MAX_FILES:
        return None
    with _make_folder(get_fetch_path(checkout)) as folder:
        gone = [name for name, change in kept.items() if not change.now]
        copies = dict(_copy_files(checkout, [name for name in kept if name not in gone], folder))
        if not gone and not copies:
            return None
        paths = "".join(f"{copy}\n" for copy, _mode in copies.values())
        shas = run_git(repo.root, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=paths).split()
        blobs = {name: TreeEntry(mode, sha) for (name, (_, mode)), sha in zip(copies.items(), shas, strict=True)}
        tree = edit_tree(repo, tip, {**blobs, **dict.fromkeys(gone)}, folder)
    return create_commit(repo, tree, (tip,), MESSAGE)


@contextmanager
def _make_folder(path: Path) -> Iterator[Path]:
    """Make a folder where the next inspection of the checkout finds and removes it after a crash."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _copy_files(checkout: Path, names: list[str], folder: Path) -> Iterator[tuple[str, tuple[Path, str]]]:
    for n, name in enumerate(names):
        data = read_beneath(checkout, name)
        if data is None:
            continue
        copy = folder / str(n)
        copy.write_bytes(data)
        mode = (checkout / name).lstat().st_mode
        yield name, (copy, "100755" if mode & stat.S_IXUSR else "100644")
