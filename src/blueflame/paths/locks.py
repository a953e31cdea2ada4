"""File locks: which paths a task claims for itself, and who stands in whose way.

A lock is a path inside the repository. A lock on a directory covers everything below it; "." is the whole repository.
A glob is taken as the directory before its first wild component ("src/**" and "src/*.py" both lock "src"): too much
is safe, too little is not. Two locks that differ only in case or in Unicode form are one: some disks see one file.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Generic, TypeAlias, TypeVar
from unicodedata import category, normalize

from blueflame.model.task import Task

LockPath: TypeAlias = tuple[str, ...]
WHOLE_REPOSITORY: LockPath = ()
WILDCARDS = frozenset("*?[")


class BadLock(ValueError):
    """A lock that names no path inside the repository."""


def parse_lock(lock: str) -> LockPath:
    """The components of a lock: "./a//b/" is ("a", "b"), "." is the whole repository."""
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


def fold_path(path: LockPath) -> LockPath:
    """The form in which paths are compared: Unicode's canonical caseless form (D145)."""
    return tuple(part.lower() if part.isascii() else _fold_part(part) for part in path)


def _fold_part(part: str) -> str:
    return normalize("NFD", normalize("NFD", part).casefold())


def covers(outer: LockPath, inner: LockPath) -> bool:
    return inner[: len(outer)] == outer


def do_locks_overlap(a: str, b: str) -> bool:
    """Whether two locks can touch the same file: one is the other, or lies above it."""
    one, other = fold_path(parse_lock(a)), fold_path(parse_lock(b))
    return covers(one, other) or covers(other, one)


def parse_locks(locks: Iterable[str]) -> tuple[LockPath, ...]:
    """Locks in comparable form, sorted, without those that another one covers.

    No locks at all is the whole repository: a task that does not say where it writes may write anywhere.
    """
    kept: list[LockPath] = []
    for path in sorted({fold_path(parse_lock(lock)) for lock in locks}):
        if not (kept and covers(kept[-1], path)):
            kept.append(path)
    return tuple(kept) or (WHOLE_REPOSITORY,)


def parse_task_locks(task: Task) -> tuple[LockPath, ...]:
    return parse_locks(task.file_locks)


Owner = TypeVar("Owner", str, tuple[float, float, str])


class Smallest(Generic[Owner]):
    """A multiset that knows its smallest member: add and discard cost O(log n), amortised."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[Owner, int] = {}  # 0: gone, but its entry still lies in the heap
        self._heap: list[Owner] = []

    def add(self, member: Owner) -> None:
        if member not in self._counts:
            heappush(self._heap, member)
        self._counts[member] = self._counts.get(member, 0) + 1

    def discard(self, member: Owner) -> None:
        if self._counts.get(member):
            self._counts[member] -= 1

    def first(self) -> Owner | None:
        while self._heap and not self._counts[self._heap[0]]:
            del self._counts[heappop(self._heap)]
        return self._heap[0] if self._heap else None


class Node(Generic[Owner]):
    """One path of the repository: who holds it, and who holds it or anything below it."""

    __slots__ = ("below", "children", "here", "parent")

    def __init__(self, parent: Node[Owner] | None) -> None:
        self.parent: Node[Owner] | None = parent
        self.children: dict[str, Node[Owner]] = {}
        self.here: Smallest[Owner] = Smallest()
        self.below: Smallest[Owner] = Smallest()


class LockTree(Generic[Owner]):
    """Who holds which paths. A question costs the depth of the lock, however many owners there are.

    It records and does not judge: two owners may hold overlapping locks if the history says that they do.
    """

    def __init__(self) -> None:
        self._root: Node[Owner] = Node(None)
        self._held: dict[Owner, tuple[LockPath, ...]] = {}

    def node(self, path: LockPath) -> Node[Owner]:
        node = self._root
        for part in path:
            child = node.children.get(part)
            if child is None:
                child = node.children[part] = Node(node)
            node = child
        return node

    def hold(self, owner: Owner, locks: Iterable[LockPath]) -> None:
        """Give the owner these locks, in place of any that it holds."""
        self.release(owner)
        self._held[owner] = held = tuple(locks)
        for path in held:
            node = self.node(path)
            node.here.add(owner)
            for above in _upwards(node):
                above.below.add(owner)

    def release(self, owner: Owner) -> None:
        for path in self._held.pop(owner, ()):
            node = self.node(path)
            node.here.discard(owner)
            for above in _upwards(node):
                above.below.discard(owner)

    def conflict(self, locks: Iterable[LockPath]) -> Owner | None:
        """The smallest owner who holds something that overlaps one of these."""
        found: Owner | None = None
        for path in locks:
            for owner in self._rivals(path):
                if owner is not None and (found is None or owner < found):
                    found = owner
        return found

    def _rivals(self, path: LockPath) -> Iterable[Owner | None]:
        node: Node[Owner] | None = self._root
        for part in path:
            assert node is not None
            yield node.here.first()
            node = node.children.get(part)
            if node is None:
                return
        assert node is not None
        yield node.below.first()


def _upwards(node: Node[Owner]) -> Iterable[Node[Owner]]:
    above: Node[Owner] | None = node
    while above is not None:
        yield above
        above = above.parent
