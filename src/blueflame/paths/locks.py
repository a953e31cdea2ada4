"""File locks: which paths only one task at a time may change, and which locks overlap.

A lock is a path inside the repository. A lock on a directory covers everything below it; "." is the whole repository.
A glob locks the directory before its first component with a wildcard ("src/**" and "src/*.py" both lock "src"): to lock
too much is safe. Two locks that differ only in case or in Unicode form are the same: on some disks they are one file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import category, normalize

if TYPE_CHECKING:  # building the values of tasks takes 10 ms, and the watcher of each attempt imports locks
    from blueflame.model.task import Task

LockPath: TypeAlias = tuple[str, ...]
WHOLE_REPOSITORY: LockPath = ()
WILDCARDS = frozenset("*?[")


class BadLock(ValueError):
    """A lock that names no path inside the repository."""


def parse_lock(lock: str) -> LockPath:
    """Parse a lock into its components: "./a//b/" is ("a", "b"), "." is the whole repository."""
    reason = _find_lock_error(lock)
    if reason:
        raise BadLock(f"the lock {lock[:120]!r} {reason}")
    parts: list[str] = []
    for part in lock.split("/"):
        if not WILDCARDS.isdisjoint(part):
            break
        if part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def _find_lock_error(lock: str) -> str:
    if not lock.isprintable() and any(category(letter) in ("Cc", "Cs") for letter in lock):
        return "holds a control character; write a plain path"
    if "\\" in lock:
        return 'holds a backslash; separate directories with "/"'
    if lock.startswith("/"):
        return "is an absolute path; write it from the top of the repository"
    if lock.startswith("~"):
        return 'starts with "~"; write it from the top of the repository'
    if ".." in lock.split("/"):
        return 'climbs with ".."; write it from the top of the repository'
    return ""


def split_path(path: str) -> LockPath:
    """Return the path of an existing file in comparable form; its name may be one that no lock can have."""
    return fold_path(tuple(path.split("/")))


def fold_path(path: LockPath) -> LockPath:
    """Return the form in which paths are compared: Unicode's canonical caseless form (D145)."""
    return tuple(
        part.lower() if part.isascii() else normalize("NFD", normalize("NFD", part).casefold()) for part in path
    )


def covers(outer: LockPath, inner: LockPath) -> bool:
    return inner[: len(outer)] == outer


def do_locks_overlap(a: str, b: str) -> bool:
    """Whether two locks cover a common path: they are equal, or one covers the other."""
    one, other = fold_path(parse_lock(a)), fold_path(parse_lock(b))
    return covers(one, other) or covers(other, one)


def parse_locks(locks: Iterable[str]) -> tuple[LockPath, ...]:
    """Parse locks into comparable form, sorted, without those that another one covers.

    No locks at all means the whole repository: such a task may write anywhere.
    """
    kept: list[LockPath] = []
    for path in sorted({fold_path(parse_lock(lock)) for lock in locks}):
        if not (kept and covers(kept[-1], path)):
            kept.append(path)
    return tuple(kept) or (WHOLE_REPOSITORY,)


def parse_task_locks(task: Task) -> tuple[LockPath, ...]:
    return parse_locks(task.file_locks)


class HeldLocks:
    """A set of locked paths; a lookup costs the depth of the path, not the number of locks."""

    def __init__(self, locks: Iterable[LockPath] = ()) -> None:
        self._held: set[LockPath] = set()
        self._above: set[LockPath] = set()  # every held path, and every folder that holds one
        self.add(locks)

    def add(self, locks: Iterable[LockPath]) -> None:
        for path in locks:
            self._held.add(path)
            self._above.update(path[:depth] for depth in range(len(path) + 1))

    def are_free(self, locks: Iterable[LockPath]) -> bool:
        return not any(
            path in self._above or any(path[:depth] in self._held for depth in range(len(path))) for path in locks
        )
