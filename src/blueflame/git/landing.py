"""Move the base branch by compare-and-swap, and update the person's clean checkout of it.

This takes two steps, and the state after each can be recognised:

1. update every checkout of the branch from `old` to `new` (index and files; git refuses to overwrite other changes);
2. swap the branch from `old` to `new`, if it still is at `old`.

A crash between them leaves the branch at `old` and a checkout whose index is exactly `new` and whose files match its
index: `advance_branch`, called again, continues with step 2. If the swap fails, because the branch has moved meanwhile,
the checkout is restored to `old`. git writes the index last and in one rename, so a git that dies within step 1, or has
no room, leaves files that differ: these are taken back (git/half_update), and what the person changed is not touched.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from blueflame.git.command import OBJECT_ID, build_git_error, run_git, split_nul, try_git
from blueflame.git.half_update import forget_update, is_index_at, note_update, take_back_update
from blueflame.git.merge import find_tree
from blueflame.git.repository import Repository, is_ancestor, read_branch_head
from blueflame.git.steps import compare_trees
from blueflame.model.errors import GitFailed, WorldError
from blueflame.system.process import ProcessResult

CHECKOUT_TIMEOUT = 1800.0
INDEX_WAIT_SECONDS = 10.0
INDEX_LOCKED = re.compile(r"index\.lock': File exists")
OPERATION_FILES = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


class Advanced(NamedTuple):
    checkout: str  # what happened to the person's checkout of the branch


class Moved(NamedTuple):
    """The branch has moved since the landing was built."""

    found: str


class Dirty(NamedTuple):
    """The person's checkout is not clean: nothing was changed."""

    paths: tuple[str, ...]
    reason: str
    under_way: bool = False  # the person is in the midst of a merge, a rebase or the like


def advance_branch(repo: Repository, branch: str, *, old: str, new: str) -> Advanced | Moved | Dirty:
    """Move `branch` from `old` to `new` or leave everything as it was; calling again after a crash finishes it."""
    # reading HEAD files is cheap; git is asked only if one names the branch or cannot be read
    heads = (repo.common_dir / "HEAD", *repo.common_dir.glob("worktrees/*/HEAD"))
    names = {branch, _find_target(repo, branch)}
    named = any(_may_name(head, name) for head in heads for name in names)
    checkouts = tuple(path for name in sorted(names) for path in _list_checkouts_of(repo, name)) if named else ()
    if checkouts or old == new:  # without a checkout there is nothing to restore, and the swap itself checks this
        found = read_branch_head(repo, branch)
        if found != old or old == new:
            return Advanced("already landed") if is_ancestor(repo, new, found) else Moved(found)
    for checkout in checkouts:
        take_back_update(repo, checkout, _find_git_folder(checkout))
    staged = {checkout: _list_changed_files(checkout) for checkout in checkouts}
    obstacles = (_find_obstacle(repo, checkout, files, old=old, new=new) for checkout, files in staged.items())
    obstacle = _find_rebase(repo, branch) or next(filter(None, obstacles), None)
    if obstacle is not None:
        return obstacle
    updated: list[Path] = []
    try:
        for checkout in (each for each, files in staged.items() if not files):  # the others are at `new` already
            updated.append(checkout)
            objection = _update_checkout(checkout, old, new)
            if objection is not None:
                _restore_checkouts(updated, old=old, new=new)
                return objection
        outcome = _swap_branch(repo, branch, old=old, new=new, within=checkouts[0] if checkouts else repo.root)
    except GitFailed:
        _restore_checkouts(updated, old=old, new=new)
        for checkout in updated:
            with suppress(WorldError, OSError):  # the next call does it
                take_back_update(repo, checkout, _find_git_folder(checkout), patience=0.0)
        raise
    if isinstance(outcome, Moved):
        _restore_checkouts(updated, old=old, new=new)
        return outcome
    shown = ", ".join(map(str, checkouts))
    return Advanced(f"updated the checkout in {shown}" if checkouts else "not checked out anywhere")


def _swap_branch(repo: Repository, branch: str, *, old: str, new: str, within: Path) -> Moved | None:
    """Swap from within the checkout, so that the reflog of its HEAD has an entry, too."""
    args = ("update-ref", "-m", "blueflame: land", f"refs/heads/{branch}", new, old)
    done = try_git(within, *args)
    if done.code == 0:
        return None
    found = read_branch_head(repo, branch)
    if found == old:
        raise build_git_error(within, args, done)
    return None if is_ancestor(repo, new, found) else Moved(found)


def _update_checkout(checkout: Path, old: str, new: str) -> Dirty | None:
    """Update index and files, or return why git refuses: it checks all of them before it changes the first."""
    args, inside = ("read-tree", "-m", "-u", old, new), _find_git_folder(checkout)
    note_update(inside, old, new)
    done = _try_with_index(checkout, *args)
    if done.code == 0:
        forget_update(inside)
        return None
    if "overwritten" in done.err or ("not uptodate" in done.err and _list_changed_files(checkout)):
        forget_update(inside)
        return Dirty((), f"{checkout} cannot be updated: {done.err.strip()[-500:]}")
    raise build_git_error(checkout, args, done)


def _try_with_index(checkout: Path, *args: str) -> ProcessResult:
    """Run a git command that locks the index; wait while another git holds it, such as that of an editor."""
    give_up = time.monotonic() + INDEX_WAIT_SECONDS
    while True:
        done = try_git(checkout, *args, timeout=CHECKOUT_TIMEOUT)
        if not done.code or not INDEX_LOCKED.search(done.err) or time.monotonic() > give_up:
            return done
        time.sleep(0.05)


def _restore_checkouts(updated: list[Path], *, old: str, new: str) -> None:
    for checkout in updated:
        if is_index_at(checkout, new):
            _update_checkout(checkout, new, old)


def _list_changed_files(checkout: Path) -> tuple[str, ...]:
    """Return what `git status` lists of tracked files. It may refresh the index, as the person's own would: read-tree
    relies on that."""
    args = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all")
    return split_nul(run_git(checkout, *args, env={"GIT_OPTIONAL_LOCKS": "1"}, timeout=300))


def _find_obstacle(repo: Repository, checkout: Path, changed: tuple[str, ...], *, old: str, new: str) -> Dirty | None:
    """Return why this checkout cannot be updated, or None."""
    inside = _find_git_folder(checkout)
    under_way = sorted({what for name, what in OPERATION_FILES.items() if (inside / name).exists()})
    if under_way:
        return Dirty((), f"a {under_way[0]} is under way in {checkout}; finish or abort it first", under_way=True)
    if changed:
        ours = all(entry[1] == " " for entry in changed) and is_index_at(checkout, new)
        reason = f"{checkout} has changes that are not committed; commit or stash them first"
        return None if ours else Dirty(tuple(sorted(entry[3:] for entry in changed)), reason)
    in_the_way = _find_blocking_files(repo, checkout, old, new)
    if in_the_way:
        return Dirty(in_the_way, f"files in {checkout} are where new ones must go; move them elsewhere first")
    return None


def _find_git_folder(checkout: Path) -> Path:
    """Return its `.git` folder; in a linked work tree that is a file, so git is asked."""
    inside = checkout / ".git"
    return inside if inside.is_dir() else Path(run_git(checkout, "rev-parse", "--absolute-git-dir").removesuffix("\n"))


def _find_blocking_files(repo: Repository, checkout: Path, old: str, new: str) -> tuple[str, ...]:
    """Return untracked files where new files must go. Git itself would overwrite them if they are ignored."""
    entries = compare_trees(repo, find_tree(repo, old), find_tree(repo, new))
    # casefold: on a case-insensitive file system a file renamed from A to a does not block itself
    going = frozenset((entry.old_path or entry.path).casefold() for entry in entries if entry.status != "A")
    coming = (entry.path for entry in entries if entry.status == "A" or entry.old_path)
    blocks = (block for path in coming for block in _list_blocking_paths(checkout, path))
    return tuple(sorted({block for block in blocks if block.casefold() not in going}))


def _list_blocking_paths(checkout: Path, path: str) -> Iterator[str]:
    """Yield files where one of its folders must be, a file in its own place, or the files of a folder there."""
    for folder in PurePosixPath(path).parents:
        real = checkout / folder
        if real.is_symlink() or (real.exists() and not real.is_dir()):
            yield str(folder)
    own = checkout / path
    if own.is_dir() and not own.is_symlink():
        yield from (str(below.relative_to(checkout)) for below in sorted(own.rglob("*")) if not below.is_dir())
    elif os.path.lexists(own):
        yield path


def _find_target(repo: Repository, branch: str) -> str:
    """Return the branch that this one stands for, if it is a symbolic ref: git lists its checkouts by that name."""
    with suppress(OSError, ValueError):
        text = (repo.common_dir / "refs" / "heads" / branch).read_text("utf-8").strip()
        return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else branch
    return branch


def _may_name(head: Path, branch: str) -> bool:
    try:
        text = head.read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return True
    if OBJECT_ID.fullmatch(text):  # detached
        return False
    other = (
        text.startswith("ref: refs/heads/") and text != "ref: refs/heads/.invalid"
    )  # .invalid: refs are in another format
    return not other or text == f"ref: refs/heads/{branch}"


def _list_checkouts_of(repo: Repository, branch: str) -> Iterator[Path]:
    for entry in run_git(repo.root, "worktree", "list", "--porcelain", "-z").split("\0\0"):
        lines = entry.split("\0")
        path = Path(lines[0].removeprefix("worktree "))
        if path == repo.git_dir:  # what git says of a main work tree whose git folder is elsewhere
            path = repo.root
        if "bare" in lines and (path / ".git" / "index").exists() and _may_name(path / ".git" / "HEAD", branch):
            # after a landing without it, its files and its index would take back what has landed
            fix = "run 'git config core.bare false', or move the files elsewhere if it should have none"
            raise GitFailed(f"{path} has a checkout of {branch}, but its core.bare says that it has none: {fix}")
        if f"branch refs/heads/{branch}" in lines and path.is_dir():
            yield path


def _find_rebase(repo: Repository, branch: str) -> Dirty | None:
    """Return a rebase of the branch: it detaches HEAD and sets the branch at its end, so the branch must not move."""
    for inside in (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*"))):
        for name in ("rebase-merge", "rebase-apply"):
            record = inside / name / "head-name"
            if record.is_file() and record.read_text().strip() == f"refs/heads/{branch}":
                state = f"a rebase of {branch} is under way ({inside / name})"
                return Dirty((), f"{state}; finish or abort it first", under_way=True)
    return None
