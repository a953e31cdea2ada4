"""Read the branches of an agent's checkout as plain files: no git process uses that folder as its repository."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from blueflame.git.command import OBJECT_ID
from blueflame.model.errors import GitFailed

BRANCH_REFS = "refs/heads/"
MAX_REF_FILE_BYTES = 10_000_000


def read_branch_tip(checkout: Path, branch: str) -> str | None:
    """Return the commit of a branch; None if there is no such branch."""
    inside = _get_git_folder(checkout)
    _check_no_links(inside, branch)
    loose = read_plain(inside / "refs" / "heads" / branch)
    found = loose.strip() if loose is not None else _read_packed_ref(inside / "packed-refs", f"{BRANCH_REFS}{branch}")
    if found is not None and not OBJECT_ID.fullmatch(found):
        raise GitFailed(f"the branch {branch} in {checkout} does not name a commit but {found[:80]!r}")
    return found


def read_checkout_head(checkout: Path) -> str | None:
    """Return the commit that is checked out; None if HEAD names a branch without one."""
    text = (read_plain(_get_git_folder(checkout) / "HEAD") or "").strip()
    name = text.removeprefix("ref: ").strip()
    if name.startswith(BRANCH_REFS) and ".." not in name.split("/"):
        return read_branch_tip(checkout, name.removeprefix(BRANCH_REFS))
    if not OBJECT_ID.fullmatch(text):
        raise GitFailed(f"HEAD in {checkout} names neither a commit nor a branch but {text[:80]!r}")
    return text


def check_object_store(checkout: Path, *, borrowed: str) -> None:
    """Refuse anything but plain files and folders, and any alternates that we did not write: git opens what it finds
    in an object store, a pipe would block it and a link lead it anywhere."""
    objects = _get_git_folder(checkout) / "objects"
    front = [objects]
    while front:
        folder = front.pop()
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise _build_not_plain_error(folder)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    front.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    raise _build_not_plain_error(Path(entry.path))
    ours = borrowed.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    for name in ("alternates", "http-alternates"):
        text = read_plain(objects / "info" / name)
        if text is not None and text != ours:
            raise GitFailed(f"{objects / 'info' / name} was changed: the agent points git to other objects")


def _build_not_plain_error(path: Path) -> GitFailed:
    return GitFailed(f"nothing is taken from this checkout: {path} is neither a plain file nor a folder")


def _check_no_links(inside: Path, name: str) -> None:
    """Refuse a link in place of a folder in the branch's name."""
    folder = inside
    try:
        for part in ("refs", "heads", *name.split("/")[:-1]):
            folder /= part
            if folder.is_symlink():
                raise _build_not_plain_error(folder)
    except PermissionError as e:  # an agent may take them from its own folders
        raise GitFailed(f"cannot read {folder}: {e.strerror}") from e


def read_plain(path: Path) -> str | None:
    """Read a small plain file; None if it does not exist. An agent may have put a link, a pipe or a gigabyte there."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise GitFailed(f"cannot read {path}: {e.strerror}") from e
    try:
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):  # git leaves empty folders of deleted branches with longer names
            return None
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_REF_FILE_BYTES:
            raise GitFailed(f"nothing is taken from this checkout: {path} is not a small plain file")
        return os.read(handle, MAX_REF_FILE_BYTES).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _get_git_folder(checkout: Path) -> Path:
    inside = checkout / ".git"
    if inside.is_symlink() or not inside.is_dir():
        raise GitFailed(f"nothing is taken from this checkout: the agent replaced or removed {inside}")
    return inside


def _read_packed_ref(path: Path, name: str) -> str | None:
    lines = (read_plain(path) or "").splitlines()
    return next((line.split(" ", 1)[0] for line in lines if line.endswith(f" {name}")), None)
