"""Which verified, not yet landed work touches the same files as a new attempt.

A result that was built on another and locks all that the other locks stands in for it: whoever overlaps the older
one overlaps the newer one too. So a chain of a thousand tasks on one file has one neighbour, not a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blueflame.paths.locks import LockPath, covers, parse_locks


class UnmergedWork:
    def __init__(self) -> None:
        self._locks: dict[str, tuple[LockPath, ...]] = {}
        self._here: dict[LockPath, dict[str, None]] = {}
        self._below: dict[LockPath, dict[str, None]] = {}
        self._hidden: dict[str, str] = {}  # older -> the newer one that stands in for it
        self._hides: dict[str, tuple[str, ...]] = {}

    def add(self, owner: str, locks: Iterable[str], built_on: Iterable[str] = ()) -> None:
        self.remove(owner)
        paths = parse_locks(locks)
        hides = tuple(old for old in built_on if self._stands_for(paths, old))
        for old in hides:
            self._remove(old)
            self._hidden[old] = owner
        self._hides[owner] = hides
        self._locks[owner] = paths
        self._insert(owner)

    def remove(self, owner: str) -> None:
        if owner not in self._locks:
            return
        self._remove(owner)
        del self._locks[owner]
        if self._hidden.get(owner):
            del self._hidden[owner]
        for old in self._hides.pop(owner, ()):
            if self._hidden.get(old) == owner:
                del self._hidden[old]
                self._insert(old)

    def find_overlapping(self, locks: Iterable[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for path in parse_locks(locks):
            for n in range(len(path)):
                found.update(self._here.get(path[:n], {}))
            found.update(self._below.get(path, {}))
        return tuple(sorted(found))

    def _stands_for(self, paths: tuple[LockPath, ...], old: str) -> bool:
        if old not in self._locks or old in self._hidden:
            return False
        return all(any(covers(path, theirs) for path in paths) for theirs in self._locks[old])

    def _insert(self, owner: str) -> None:
        for index, path in self._places(owner):
            index.setdefault(path, {})[owner] = None

    def _remove(self, owner: str) -> None:
        for index, path in self._places(owner):
            index.get(path, {}).pop(owner, None)

    def _places(self, owner: str) -> Iterator[tuple[dict[LockPath, dict[str, None]], LockPath]]:
        for path in self._locks[owner]:
            yield self._here, path
            for n in range(len(path) + 1):
                yield self._below, path[:n]
