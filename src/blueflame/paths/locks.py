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

Path: TypeAlias = tuple[str, ...]
EVERYTHING: Path = ()
WILD = frozenset("*?[")


class BadLock(ValueError):
    """A lock that names no path inside the repository."""


def normalise(lock: str) -> Path:
    """The components of a lock: "./a//b/" is ("a", "b"), "." is the whole repository."""
    reason = _fault(lock)
    if reason:
        raise BadLock(f"the lock {lock[:120]!r} {reason}")
    parts: list[str] = []
    for part in lock.split("/"):
        if not WILD.isdisjoint(part):
            break
        if part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def _fault(lock: str) -> str:
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


def fold(path: Path) -> Path:
    """The form in which paths are compared: Unicode's canonical caseless form (D145)."""
    return tuple(part.lower() if part.isascii() else _caseless(part) for part in path)


def _caseless(part: str) -> str:
    return normalize("NFD", normalize("NFD", part).casefold())


def covers(outer: Path, inner: Path) -> bool:
    return inner[: len(outer)] == outer


def overlap(a: str, b: str) -> bool:
    """Whether two locks can touch the same file: one is the other, or lies above it."""
    one, other = fold(normalise(a)), fold(normalise(b))
    return covers(one, other) or covers(other, one)


def lock_paths(locks: Iterable[str]) -> tuple[Path, ...]:
    """Locks in comparable form, sorted, without those that another one covers.

    No locks at all is the whole repository: a task that does not say where it writes may write anywhere.
    """
    kept: list[Path] = []
    for path in sorted({fold(normalise(lock)) for lock in locks}):
        if not (kept and covers(kept[-1], path)):
            kept.append(path)
    return tuple(kept) or (EVERYTHING,)


def locks_of(task: Task) -> tuple[Path, ...]:
    return lock_paths(task.file_locks)


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
        self._held: dict[Owner, tuple[Path, ...]] = {}

    def node(self, path: Path) -> Node[Owner]:
        node = self._root
        for part in path:
            child = node.children.get(part)
            if child is None:
                child = node.children[part] = Node(node)
            node = child
        return node

    def hold(self, owner: Owner, locks: Iterable[Path]) -> None:
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

    def conflict(self, locks: Iterable[Path]) -> Owner | None:
        """The smallest owner who holds something that overlaps one of these."""
        found: Owner | None = None
        for path in locks:
            for owner in self._rivals(path):
                if owner is not None and (found is None or owner < found):
                    found = owner
        return found

    def _rivals(self, path: Path) -> Iterable[Owner | None]:
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
