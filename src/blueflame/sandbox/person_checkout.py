"""The folder in which a person runs a command in the sandbox: what it is to git, and which of its files to protect.

The type of the folder is found by its files alone: git is not run, since the folder may be an agent's, and git executes
what a repository's configuration names. An agent's clone holds only what is committed; a person's folder has more, such
as `.env` with real passwords, or sockets of running servers. Blocked files that git ignores are hidden, other blocked
files are read-only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from blueflame.git.command import split_nul, try_git
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.paths.globs import Globs

MAX_POINTER_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonCheckout:
    root: Path
    git: Path | None = None  # root/.git, a folder or a pointer
    common: Path | None = None  # where its objects and refs are, if elsewhere

    @property
    def objects(self) -> Path | None:
        home = self.common or self.git
        return home / "objects" if home is not None and home.is_dir() else None


def find_checkout(start: Path) -> PersonCheckout:
    """Find the checkout that a folder is in."""
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return read_checkout(folder)
    raise Refused(f"{start} is not in a git repository; name a folder with --worktree DIR")


def read_checkout(root: Path) -> PersonCheckout:
    """Read `root` itself, in git or not."""
    git = root / ".git"
    if git.is_symlink() or not git.exists():
        return PersonCheckout(root=root)
    if git.is_dir():
        return PersonCheckout(root=root, git=git)
    return PersonCheckout(root=root, git=git, common=_find_common_folder(root, git))


def _find_common_folder(root: Path, pointer: Path) -> Path | None:
    """Return the common git folder of a linked worktree or a submodule."""
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
MAX_ENTRIES = 200_000  # a larger tree is searched no further, which is reported


class ProtectedFiles(NamedTuple):
    frozen: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    whole: bool = True  # everything was searched


def find_protected_files(worktree: Path, blocked: tuple[str, ...], *, of_git: bool) -> ProtectedFiles:
    """`of_git`: the person's own repository, in which git may be run. Patterns match in any letter case."""
    globs = Globs(tuple(pattern.lower() for pattern in blocked))
    ignored: tuple[str, ...] = ()
    if of_git:
        args = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        done = try_git(worktree, *args, timeout=120)
        ignored = tuple(f"{name.rstrip('/')}/" for name in split_nul(done.out)) if done.code == 0 else ()
    frozen: list[str] = []
    hidden: list[str] = []
    waiting, seen = [""], 0
    while waiting and seen <= MAX_ENTRIES:
        for name, is_folder, is_special in _list_entries(worktree, waiting.pop()):
            seen += 1
            if is_special:
                hidden.append(name)
            elif globs.touches(name.lower()) if is_folder else globs.matches(name.lower()):
                (hidden if f"{name}/".startswith(ignored) else frozen).append(name)
            elif is_folder and name.rpartition("/")[2] not in SKIPPED_FOLDERS:
                waiting.append(name)
    return ProtectedFiles(tuple(sorted(frozen)), tuple(sorted(hidden)), seen <= MAX_ENTRIES)


def _list_entries(worktree: Path, folder: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield name, whether it is a folder, whether it is a socket, pipe or device. Links are skipped: their targets are
    in the checkout and found there, or not inside at all."""
    with suppress(OSError), os.scandir(worktree / folder) as entries:
        for entry in entries:
            if not entry.is_symlink():
                is_folder = entry.is_dir(follow_symlinks=False)
                is_special = not is_folder and not entry.is_file(follow_symlinks=False)
                yield f"{folder}/{entry.name}".lstrip("/"), is_folder, is_special
