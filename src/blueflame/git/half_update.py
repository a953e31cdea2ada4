"""Take back an update of the person's checkout that stopped half way: git was killed, or the disk was full.

Git writes the files first and the index last. In between, the checkout looks as if the person had changed it, and
nothing could land any more. A note in its git folder says what was under way; a file is ours if it is missing or has
the beginning of the new content. Anything else was done by the person, and stays.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from blueflame.git.batch import has_commit, read_objects
from blueflame.git.command import build_git_error, run_git, split_nul, try_git
from blueflame.git.merge import find_tree
from blueflame.git.repository import Repository
from blueflame.git.steps import compare_trees
from blueflame.model.errors import GitFailed
from blueflame.system.files import explain_file_errors

NOTE = "blueflame-landing"
INDEX_WAIT_SECONDS = 10.0


class _Leftover(NamedTuple):
    path: str
    is_tracked: bool


def note_update(inside: Path, old: str, new: str) -> None:
    """Note in the checkout's git folder what is begun."""
    with explain_file_errors("write", inside / NOTE):
        (inside / NOTE).write_text(f"{old} {new}\n", "ascii")


def forget_update(inside: Path) -> None:
    (inside / NOTE).unlink(missing_ok=True)


def take_back_update(repo: Repository, checkout: Path, inside: Path, *, patience: float = INDEX_WAIT_SECONDS) -> None:
    """Restore the files of an update that did not come to its end; do nothing if all did."""
    try:
        old, new = (inside / NOTE).read_text("ascii").split()
    except (OSError, ValueError):  # there is no note, or a part of one: then nothing had begun
        return
    _wait_for_index(inside, patience)
    if has_commit(repo, old) and has_commit(repo, new):
        args = ("diff-index", "--cached", "--name-only", "-z", old, "--")
        staged = frozenset(split_nul(run_git(checkout, *args, timeout=300)))  # by the person, or all of the update
        found = tuple(each for each in _find_leftovers(repo, checkout, old, new) if each.path not in staged)
        tracked = "".join(f"{each.path}\0" for each in found if each.is_tracked)
        if tracked:
            run_git(checkout, "checkout-index", "-f", "-z", "--stdin", stdin=tracked, timeout=300)
        for each in found:
            if not each.is_tracked:
                _remove_file(checkout, checkout / each.path)
    forget_update(inside)


def _wait_for_index(inside: Path, seconds: float) -> None:
    """Wait for the git that may still be at it: it outlives us. A lock that it left is removed by git/locks."""
    give_up = time.monotonic() + seconds
    while (inside / "index.lock").exists():
        if time.monotonic() > give_up:
            raise GitFailed(f"cannot update the checkout: {inside / 'index.lock'}: File exists; another git is at work")
        time.sleep(0.05)


def _find_leftovers(repo: Repository, checkout: Path, old: str, new: str) -> Iterator[_Leftover]:
    entries = compare_trees(repo, find_tree(repo, old), find_tree(repo, new))
    coming = {entry.path: entry.sha for entry in entries if entry.status != "D" and entry.mode.startswith("100")}
    tracked = {entry.old_path or entry.path for entry in entries if entry.status != "A"}
    for path in sorted({*coming, *tracked}):
        text = _read_plain(checkout / path)
        is_missing = text is None and not os.path.lexists(checkout / path)
        is_begun = text is not None and path in coming and _read_blob(repo, coming[path]).startswith(text)
        if is_begun or (is_missing and path in tracked):
            yield _Leftover(path, path in tracked)


def _read_blob(repo: Repository, sha: str) -> bytes:
    return read_objects(repo, (sha,))[sha]


def _read_plain(path: Path) -> bytes | None:
    """None for what is not a plain file."""
    try:
        return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None
    except OSError:
        return None


def _remove_file(checkout: Path, path: Path) -> None:
    """Remove it, and the folders that were made for it."""
    path.unlink(missing_ok=True)
    with suppress(OSError):  # not empty
        for folder in path.parents:
            if folder == checkout:
                break
            folder.rmdir()


def is_index_at(checkout: Path, sha: str) -> bool:
    args = ("diff-index", "--cached", "--quiet", sha, "--")
    done = try_git(checkout, *args, timeout=300)
    if done.code not in (0, 1):
        raise build_git_error(checkout, args, done)
    return done.code == 0
