"""Copy the ignored files that a fresh checkout needs (.env, caches).

`.worktreeinclude` at the top of the repository lists them in gitignore syntax, as for other tools. A file is copied
only if it matches and git ignores it: tracked files are there already, and a file that is neither tracked nor ignored
is unfinished work. Git itself does the matching, so that patterns mean the same.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

from blueflame.git.command import build_git_error, run_git, split_nul, try_git
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError

INCLUDE_FILE = ".worktreeinclude"
STATE_FOLDER = ".blueflame"
OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FICLONE = 0x40049409  # Linux: share the blocks until one side writes; where it fails, the content is copied


@dataclass(frozen=True, slots=True)
class SeedResult:
    copied: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()  # path, why


def seed_checkout(repo_root: Path, checkout: Path, include_file: str = INCLUDE_FILE) -> SeedResult:
    """Copy the files that the include file lists. Nothing is overwritten, nothing is written outside the checkout.

    Copied files are ignored in the checkout as well (a person's global excludes do not apply to a clone), so that an
    agent's `git add -A` does not commit them.
    """
    if not (repo_root / include_file).is_file():
        return SeedResult()
    root, checkout = repo_root.resolve(), checkout.resolve()
    wanted = tuple(_list_wanted(root, checkout, include_file))
    _ignore_copied(root, checkout, wanted)  # first: a crash must not leave a secret that is not ignored
    notes = {path: _copy_file(root, checkout, path) for path in wanted}
    return SeedResult(
        copied=tuple(path for path, why in notes.items() if not why),
        skipped=tuple((path, why) for path, why in notes.items() if why),
    )


def _list_wanted(root: Path, checkout: Path, include_file: str) -> Iterator[str]:
    others = ("ls-files", "-z", "--others", "--ignored")
    ignored = set(split_nul(run_git(root, *others, "--exclude-standard", timeout=None)))
    matching = set(split_nul(run_git(root, *others, f"--exclude-from={include_file}", timeout=None)))
    # the state folder and the checkouts of other attempts may be in the repository and are ignored, too
    homes = (root / STATE_FOLDER, checkout.parent if root in checkout.parent.parents else checkout)
    for path in sorted(ignored & matching):
        if not any((root / path).is_relative_to(home) for home in homes):
            yield path


def _copy_file(root: Path, checkout: Path, path: str) -> str:
    """Return why it was not copied, or ""."""
    *folders, name = PurePosixPath(path).parts
    source = root / path
    try:
        found = source.lstat()
        if why := _explain_unfit(root, source, found):
            return why
        with _open_folder(checkout, folders) as folder:
            _copy_into(folder, name, root, source, found)
        return ""
    except FileExistsError:
        return "is already there"
    except OSError as e:
        if e.filename == str(source):
            return f"cannot be read: {e.strerror}"
        if e.errno in (errno.ENOTDIR, errno.ELOOP):
            return "a file is where its folder should be in the checkout"
        advice = "free space or fix its permissions"
        raise WorldError(f"cannot copy {source} into {checkout}: {e.strerror}; {advice}") from e


def _explain_unfit(root: Path, source: Path, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        if _find_target_inside(root, source) is None:
            return f"is a link that leads out of the repository, to {source.readlink()}"
        return ""
    if stat.S_ISDIR(found.st_mode):
        return "is a separate repository"
    return "" if stat.S_ISREG(found.st_mode) else "is neither a file nor a link"


def _find_target_inside(root: Path, link: Path) -> str | None:
    """Return the target relative to the link: an absolute one, copied unchanged, would lead to our repository."""
    real = Path(os.path.realpath(link))
    if not real.is_relative_to(root) or ".git" in real.relative_to(root).parts:
        return None
    return os.path.relpath(real, link.parent)


@contextmanager
def _open_folder(checkout: Path, folders: Iterable[str]) -> Iterator[int]:
    """Open a folder of the checkout by descriptors, never through a link; create it if it does not exist.

    After a restart an agent may be running in the checkout: a path that was checked before may now lead elsewhere.
    """
    handle = os.open(checkout, OPEN_FOLDER_FLAGS)
    try:
        for name in folders:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=handle)
            below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _copy_into(folder: int, name: str, root: Path, source: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        os.symlink(_find_target_inside(root, source) or ".", name, dir_fd=folder)
        return
    with source.open("rb") as reader:
        # O_EXCL: never overwrite a file or a link that was created meanwhile
        writer = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with os.fdopen(writer, "wb") as sink:
            try:
                _copy_content(sink, reader, found)
            except OSError:
                os.unlink(name, dir_fd=folder)
                raise


def _copy_content(sink: IO[bytes], reader: IO[bytes], found: os.stat_result) -> None:
    try:
        fcntl.ioctl(sink.fileno(), FICLONE, reader.fileno())
    except OSError:
        shutil.copyfileobj(reader, sink)
    sink.flush()
    os.fchmod(sink.fileno(), stat.S_IMODE(found.st_mode) & 0o777)
    os.utime(sink.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))  # make and caches compare times


def _ignore_copied(root: Path, checkout: Path, wanted: Sequence[str]) -> None:
    """Add exact names (or the folder that is ignored as a whole), so that no file of an agent is ignored by mistake."""
    if not wanted or not os.path.lexists(checkout / ".git"):
        return  # an export without git: nothing can be committed there
    whole = _find_ignored_folders(root, wanted)
    ignore_paths(
        checkout, {next((folder for folder in _list_parents(path) if folder in whole), path) for path in wanted}
    )


def ignore_paths(checkout: Path, entries: Iterable[str]) -> None:
    """Add them to the checkout's own excludes; a folder ends with a slash."""
    lines = [os.fsencode(f"/{_escape_pattern(entry)}") for entry in sorted(entries)]
    try:
        with _open_folder(checkout, (".git", "info")) as info:
            _append_lines(info, "exclude", lines)
    except OSError as e:
        hint = "only a separate clone can be prepared, not a linked worktree"
        raise WorldError(f"cannot write {checkout / '.git/info/exclude'}: {e.strerror}; {hint}") from e


def _append_lines(folder: int, name: str, lines: Iterable[bytes]) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "r+b") as file:
        before = file.read()
        present = frozenset(before.split(b"\n"))
        new = [line for line in lines if line not in present]
        file.write(b"".join([b"\n" if before and not before.endswith(b"\n") else b"", *(line + b"\n" for line in new)]))


def _find_ignored_folders(root: Path, wanted: Iterable[str]) -> frozenset[str]:
    folders = sorted({folder for path in wanted for folder in _list_parents(path)})
    args = ("check-ignore", "-z", "--stdin")
    done = try_git(root, *args, stdin="".join(f"{folder}\0" for folder in folders), timeout=None)
    if done.code > 1:  # 1: none of them is ignored
        raise build_git_error(root, args, done)
    return frozenset(split_nul(done.out))


def _list_parents(path: str) -> Iterator[str]:
    """Yield `a/` and `a/b/` for `a/b/c`."""
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        yield f"{parent}/"


def _escape_pattern(path: str) -> str:
    """Escape a path as a gitignore pattern. It cannot have a newline, so that becomes `?`."""
    return "".join(f"\\{letter}" if letter in "\\*?[ " else letter for letter in path).replace("\n", "?")
