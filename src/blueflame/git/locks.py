"""Remove the locks that killed git commands of ours left; git itself never does, and fails from then on.

Git creates `<file>.lock` and renames it into place. Killed in between, it leaves the lock. Locks of others are waited
for (`core.filesRefLockTimeout` and the like in git/command) and not touched: a lock is removed only if it belongs to
our user, no process has it open and it is some seconds old.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from blueflame.git.repository import Repository
from blueflame.system.files import list_files_below

MIN_AGE_SECONDS = 2.0
OWN_REFS = "refs/blueflame"
WHOLE_REF_SIZES = (41, 65)  # an object id and the end of the line
INDEXLESS_COMMANDS = frozenset({"cat-file", "diff-tree", "update-ref"})
SHARED_LOCKS = ("packed-refs.lock", "packed-refs.new", "HEAD.lock", "shallow.lock", "reftable/tables.list.lock")


def remove_stale_locks(repo: Repository, *, alone: bool = False) -> tuple[Path, ...]:
    """Remove stale locks and return them. `alone`: no git of ours is running, so ours below refs/blueflame are stale
    whatever their age, and a lock that is too young is waited for."""
    if sys.platform != "linux":  # which files are open cannot be known
        return ()
    give_up = time.monotonic() + MIN_AGE_SECONDS + 1
    removed: list[Path] = []
    while True:
        found = [path for path in _list_locks(repo) if _is_ours(path)]
        removed += [path for path in found if _remove_if_stale(repo, path, alone=alone)]
        young = [path for path in found if path not in removed and _measure_age(path) < MIN_AGE_SECONDS]
        if not (alone and young) or time.monotonic() > give_up:
            return tuple(removed)
        time.sleep(0.1)


def remove_broken_refs(repo: Repository) -> None:
    """Remove what a power cut left of refs of ours: git can neither read nor replace a ref that is an empty file."""
    for path in list_files_below(repo.common_dir / OWN_REFS):
        with suppress(OSError):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size not in WHOLE_REF_SIZES and path.suffix != ".lock":
                path.unlink()


def _list_locks(repo: Repository) -> Iterator[Path]:
    common = repo.common_dir
    worktrees = next(os.walk(common / "worktrees"), ("", [], []))[1]  # none if unreadable: `glob` would fail
    folders = (common, *(common / "worktrees" / name for name in sorted(worktrees)))
    yield from sorted(path for path in list_files_below(common / OWN_REFS) if path.suffix == ".lock")
    pushed = list_files_below(common / "refs" / "remotes")  # what git notes of a branch that we have pushed
    yield from sorted(path for path in pushed if path.suffix == ".lock" and path.parent.name.startswith("ses-"))
    yield from (folder / name for folder in folders for name in (*SHARED_LOCKS, "index.lock"))
    yield common / "refs" / "heads" / f"{repo.base_branch}.lock"


def _is_ours(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()


def _remove_if_stale(repo: Repository, path: Path, *, alone: bool) -> bool:
    own = path.is_relative_to(repo.common_dir / OWN_REFS)
    if not (own and alone) and _measure_age(path) < MIN_AGE_SECONDS:
        return False
    if _is_open(path) or (path.name == "index.lock" and _is_git_at_work(repo)):
        return False
    with suppress(OSError):  # its holder has just released it, or it stays
        path.unlink()
        return True
    return False


def _measure_age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return MIN_AGE_SECONDS


def _is_open(path: Path) -> bool:
    wanted = os.path.realpath(path)
    return any(_read_link(handle) == wanted for process in _list_processes() for handle in _list_handles(process))


def _is_git_at_work(repo: Repository) -> bool:
    """Whether a git runs in the work tree: `git commit -a` holds the index while the person writes the message, and
    has closed it."""
    root = os.path.realpath(repo.root)
    return any(_is_git_below(process, root) for process in _list_processes())


def _list_processes() -> list[Path]:
    return [Path("/proc", name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 (names are enough)


def _list_handles(process: Path) -> list[Path]:
    try:
        return list((process / "fd").iterdir())
    except OSError:  # as below
        return []


def _is_git_below(process: Path, root: str) -> bool:
    try:
        is_git = (process / "comm").read_text().startswith("git") and not _leaves_index(process)
        return is_git and (process / "cwd").readlink().is_relative_to(root)
    except OSError:  # it has ended, or is of another user, who cannot hold a lock that we own
        return False


def _leaves_index(process: Path) -> bool:
    """Whether it never locks the index, like the gits of ours that stay (git/batch)."""
    return not INDEXLESS_COMMANDS.isdisjoint((process / "cmdline").read_text(errors="replace").split("\0"))


def _read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
