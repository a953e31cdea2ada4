"""A folder that a person wants a command to run in: what it is to git, told by its files alone.

Git itself is not asked here: the folder may be an agent's, and git runs what such a folder tells it to.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from blueflame.model.errors import Refused

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
