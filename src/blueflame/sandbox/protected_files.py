"""What of a person's own checkout a command in a box may not change, or may not even see.

An agent's clone has nothing in it but what is committed. A person's folder has more: `.env` with real passwords, the
sockets of servers that run outside. What git ignores and the rules block is hidden; what else they block is read-only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from blueflame.git.command import split_nul, try_git
from blueflame.paths.globs import Globs

SKIPPED_FOLDERS = (".git", "node_modules", ".venv", "venv", ".tox", ".nox", "target", "__pycache__")
MAX_ENTRIES = 200_000  # entries to look at; a tree beyond that is searched no further, and it is said


class ProtectedFiles(NamedTuple):
    frozen: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    whole: bool = True  # everything was looked at


def find_protected_files(worktree: Path, blocked: tuple[str, ...], *, of_git: bool) -> ProtectedFiles:
    """`of_git`: the person's own repository, which git may be asked about. Blocked is blocked in any letter case."""
    globs = Globs(tuple(pattern.lower() for pattern in blocked))
    ignored = _list_ignored(worktree) if of_git else ()
    frozen: list[str] = []
    hidden: list[str] = []
    waiting, seen = [""], 0
    while waiting and seen <= MAX_ENTRIES:
        for name, is_folder, is_door in _list_entries(worktree, waiting.pop()):
            seen += 1
            if is_door:
                hidden.append(name)
            elif globs.touches(name.lower()) if is_folder else globs.matches(name.lower()):
                (hidden if _is_in(name, ignored) else frozen).append(name)
            elif is_folder and name.rpartition("/")[2] not in SKIPPED_FOLDERS:
                waiting.append(name)
    return ProtectedFiles(tuple(sorted(frozen)), tuple(sorted(hidden)), seen <= MAX_ENTRIES)


def _list_entries(worktree: Path, folder: str) -> Iterator[tuple[str, bool, bool]]:
    """Name, whether it is a folder, whether somebody may be reached through it. Links are left alone: what they lead to
    is either in the checkout, and met there, or not inside at all."""
    with suppress(OSError), os.scandir(worktree / folder) as entries:
        for entry in entries:
            if not entry.is_symlink():
                is_folder = entry.is_dir(follow_symlinks=False)
                is_door = not is_folder and not entry.is_file(follow_symlinks=False)
                yield f"{folder}/{entry.name}".lstrip("/"), is_folder, is_door


def _list_ignored(worktree: Path) -> tuple[str, ...]:
    done = try_git(
        worktree, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", timeout=120
    )
    return tuple(name.rstrip("/") for name in split_nul(done.out)) if done.code == 0 else ()


def _is_in(name: str, folders: tuple[str, ...]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)
