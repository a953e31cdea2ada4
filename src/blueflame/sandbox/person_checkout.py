"""A folder that a person wants a command to run in: what it is to git, told by its files alone.

Git itself is not asked here: the folder may be an agent's, and git runs what such a folder tells it to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from blueflame.git.command import split_nul, try_git
from blueflame.model.errors import Refused
from blueflame.paths.globs import Globs

MAX_POINTER_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonCheckout:
    root: Path
    git: Path | None = None  # root/.git, a folder or a pointer
    common: Path | None = None  # where its objects and refs are, when that is elsewhere

    @property
    def objects(self) -> Path | None:
        home = self.common or self.git
        return home / "objects" if home is not None and home.is_dir() else None


def find_checkout(start: Path) -> PersonCheckout:
    """The checkout that a folder is in."""
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return read_checkout(folder)
    raise Refused(f"{start} is not in a git repository; name the folder to work in with --worktree DIR")


def read_checkout(root: Path) -> PersonCheckout:
    """`root` itself, whether git knows it or not."""
    git = root / ".git"
    if git.is_symlink() or not git.exists():
        return PersonCheckout(root=root)
    if git.is_dir():
        return PersonCheckout(root=root, git=git)
    return PersonCheckout(root=root, git=git, common=_find_common_folder(root, git))


def _find_common_folder(root: Path, pointer: Path) -> Path | None:
    """Of a linked worktree or a submodule."""
    text = _read_first_line(pointer)
    if not text.startswith("gitdir: "):
        return None
    git_dir = Path(os.path.normpath(root / text.removeprefix("gitdir: ")))
    common = _read_first_line(git_dir / "commondir")
    found = Path(os.path.normpath(git_dir / common)) if common else git_dir
    is_git = (found / "HEAD").is_file() and (found / "objects").is_dir() and (found / "refs").is_dir()
    return found if is_git else None


def _read_first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read(MAX_POINTER_BYTES).partition(b"\n")[0]).strip()
    except OSError:
        return ""


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
