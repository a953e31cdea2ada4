"""A checkout's branches, read as the plain files that they are: no git process takes an agent's folder for its own."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from blueflame.model.errors import GitFailed

OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
BRANCH_REFS = "refs/heads/"
MAX_REF_FILE_BYTES = 10_000_000


def read_branch_tip(checkout: Path, branch: str) -> str | None:
    """The commit that a branch names; None when there is no such branch."""
    inside = _get_git_folder(checkout)
    _check_no_links(inside, branch)
    loose = read_plain(inside / "refs" / "heads" / branch)
    found = loose.strip() if loose is not None else _read_packed_ref(inside / "packed-refs", f"{BRANCH_REFS}{branch}")
    if found is not None and not OBJECT_ID.fullmatch(found):
        raise GitFailed(f"the branch {branch} in {checkout} does not name a commit but {found[:80]!r}")
    return found


def read_checkout_head(checkout: Path) -> str | None:
    """The commit that is checked out; None when HEAD names a branch that has none."""
    text = (read_plain(_get_git_folder(checkout) / "HEAD") or "").strip()
    name = text.removeprefix("ref: ").strip()
    if name.startswith(BRANCH_REFS) and ".." not in name.split("/"):
        return read_branch_tip(checkout, name.removeprefix(BRANCH_REFS))
    if not OBJECT_ID.fullmatch(text):
        raise GitFailed(f"HEAD in {checkout} names neither a commit nor a branch but {text[:80]!r}")
    return text


def check_object_store(checkout: Path, *, borrowed: str) -> None:
    """Git opens what it finds in an object store: a pipe would hold it up, a link lead it anywhere. So only plain
    files and folders may be there, and the one note about other stores is the one that we wrote."""
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
        said = read_plain(objects / "info" / name)
        if said is not None and said != ours:
            raise GitFailed(f"{objects / 'info' / name} is not as we wrote it: the agent points git to other objects")


def _build_not_plain_error(path: Path) -> GitFailed:
    return GitFailed(f"{path} is neither a plain file nor a folder, so nothing is taken from this checkout")


def _check_no_links(inside: Path, name: str) -> None:
    """A branch's name may have folders in it, and each of them has to be one."""
    folder = inside
    for part in ("refs", "heads", *name.split("/")[:-1]):
        folder /= part
        if folder.is_symlink():
            raise _build_not_plain_error(folder)


def read_plain(path: Path) -> str | None:
    """An agent may have put a link, a pipe or a gigabyte there: a plain small file or nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise GitFailed(f"cannot read {path}: {e.strerror}") from e
    try:
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):  # git leaves empty folders where branches with longer names have been
            return None
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_REF_FILE_BYTES:
            raise GitFailed(f"{path} is not a plain file of git's, so nothing is taken from this checkout")
        return os.read(handle, MAX_REF_FILE_BYTES).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _get_git_folder(checkout: Path) -> Path:
    inside = checkout / ".git"
    if inside.is_symlink() or not inside.is_dir():
        raise GitFailed(
            f"{inside} is not the folder we made: the agent replaced or removed it, so nothing is taken from it"
        )
    return inside


def _read_packed_ref(path: Path, name: str) -> str | None:
    lines = (read_plain(path) or "").splitlines()
    return next((line.split(" ", 1)[0] for line in lines if line.endswith(f" {name}")), None)
