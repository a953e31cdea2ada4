"""Makes a fresh checkout ready: the ignored files that work cannot do without (.env, caches) come along.

`.worktreeinclude` at the top of the repository says which, in gitignore syntax, as other tools read it too. A file is
copied only when it matches and git really ignores it: what is tracked is there already, and what is neither tracked
nor ignored is somebody's unfinished work. Git itself does the matching, so there is one dialect and not two.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from blueflame.model.errors import WorldError
from blueflame.tools.files import write_whole
from blueflame.tools.git.commands import ask, failed, fields, git

INCLUDE_FILE = ".worktreeinclude"
OURS = ".blueflame"
FICLONE = 0x40049409  # Linux: share the blocks until one side writes; other systems refuse it and get a copy


@dataclass(frozen=True, slots=True)
class Seeded:
    copied: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()  # path, why


def seed(repo_root: Path, checkout: Path, include_file: str = INCLUDE_FILE) -> Seeded:
    """Copy what the include file asks for. Nothing is overwritten and nothing is written outside the checkout.

    Copied files are ignored in the checkout as well, whoever ignored them here (a person's global excludes do not
    travel with a clone), so that no `git add -A` of an agent commits them.
    """
    if not (repo_root / include_file).is_file():
        return Seeded()
    root, checkout = repo_root.resolve(), checkout.resolve()
    notes: dict[str, str] = {}
    copied: list[str] = []
    for path in _wanted(root, checkout, include_file):
        why = _copy(root, checkout, path)
        if why:
            notes[path] = why
        else:
            copied.append(path)
    _ignore(root, checkout, copied)
    return Seeded(tuple(copied), tuple(sorted(notes.items())))


def _wanted(root: Path, checkout: Path, include_file: str) -> Iterator[str]:
    others = ("ls-files", "-z", "--others", "--ignored")
    ignored = set(fields(git(root, *others, "--exclude-standard", timeout=None)))
    matching = set(fields(git(root, *others, f"--exclude-from={include_file}", timeout=None)))
    # the state of Blue Flame and the checkouts of other attempts may lie in the repository and are ignored, too
    homes = (root / OURS, checkout.parent if root in checkout.parent.parents else checkout)
    for path in sorted(ignored & matching):
        if not any((root / path).is_relative_to(home) for home in homes):
            yield path


def _copy(root: Path, checkout: Path, path: str) -> str:
    """Why it was not copied, or nothing."""
    source, target = root / path, checkout / path
    if path.endswith("/"):
        return "is a repository of its own"
    if obstacle := _obstacle(checkout, path):
        return obstacle
    try:
        return _copy_as_is(root, source, target)
    except OSError as e:
        if e.filename == str(source):
            return f"cannot be read: {e.strerror}"
        raise WorldError(f"cannot copy {source} to {target}: {e.strerror}; free space or mend its permissions") from e


def _obstacle(checkout: Path, path: str) -> str:
    """The checkout's own files are the work of others: a link among them must not lead our copy elsewhere."""
    *folders, name = PurePosixPath(path).parts
    place = checkout
    for folder in folders:
        place /= folder
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return f"{place.relative_to(checkout)} is not a folder in the checkout"
    return "is already there" if os.path.lexists(place / name) else ""


def _copy_as_is(root: Path, source: Path, target: Path) -> str:
    found = source.lstat()
    if stat.S_ISLNK(found.st_mode):
        inside = _target_inside(root, source)
        if inside is None:
            return f"is a link that leads out of the repository, to {source.readlink()}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(inside)
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "is neither a file nor a link"
    with source.open("rb") as reader:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_copy(reader.fileno(), target, found)
    return ""


def _target_inside(root: Path, link: Path) -> str | None:
    """Relative to the link, however it was written: copied as it stands, an absolute one would lead back to us."""
    real = Path(os.path.realpath(link))
    if not real.is_relative_to(root) or ".git" in real.relative_to(root).parts:
        return None
    return os.path.relpath(real, link.parent)


def _write_copy(reader: int, target: Path, found: os.stat_result) -> None:
    # exclusive: never through a file or a link that turned up meanwhile
    writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(reader, "rb", closefd=False) as source, open(writer, "wb") as sink:  # noqa: PTH123 - descriptors
            try:
                fcntl.ioctl(sink.fileno(), FICLONE, reader)
            except OSError:
                shutil.copyfileobj(source, sink)
            sink.flush()
            os.fchmod(sink.fileno(), stat.S_IMODE(found.st_mode) & 0o777)
            os.utime(sink.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))  # make and caches compare times
    except OSError:
        with suppress(OSError):
            target.unlink()
        raise


def _ignore(root: Path, checkout: Path, copied: Sequence[str]) -> None:
    """Exact names (or the folder that is ignored as a whole), so that nothing an agent makes is ignored by mistake."""
    exclude = _exclude_file(checkout)
    if not copied or exclude is None:
        return
    before = exclude.read_text("utf-8", "surrogateescape") if exclude.exists() else ""
    lines = [f"/{_escaped(entry)}" for entry in _ignored_as(root, copied)]
    write_whole(exclude, "\n".join([*before.rstrip("\n").split("\n"), "# copied by Blue Flame", *lines, ""]))


def _exclude_file(checkout: Path) -> Path | None:
    home = checkout / ".git"
    if not os.path.lexists(home):
        return None  # an export without git: nothing can be committed there
    if home.is_symlink() or not home.is_dir():
        raise WorldError(f"{home} is not a folder: only a clone of its own can be made ready, not a linked worktree")
    return home / "info" / "exclude"


def _ignored_as(root: Path, copied: Sequence[str]) -> list[str]:
    whole = _ignored_folders(root, copied)
    return sorted({next((folder for folder in _above(path) if folder in whole), path) for path in copied})


def _ignored_folders(root: Path, copied: Iterable[str]) -> frozenset[str]:
    folders = sorted({folder for path in copied for folder in _above(path)})
    args = ("check-ignore", "-z", "--stdin")
    done = ask(root, *args, stdin="".join(f"{folder}\0" for folder in folders), timeout=None)
    if done.code > 1:  # 1: none of them is ignored
        raise failed(root, args, done)
    return frozenset(fields(done.out))


def _above(path: str) -> Iterator[str]:
    """`a/`, `a/b/` of `a/b/c`."""
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        yield f"{parent}/"


def _escaped(path: str) -> str:
    """A literal gitignore pattern. A newline cannot be written there; `?` covers it and next to nothing else."""
    return "".join(f"\\{letter}" if letter in "\\*?[ " else letter for letter in path).replace("\n", "?")
