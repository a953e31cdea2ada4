"""Which verified work that has not landed touches the same files as a new attempt.

A result that was built on another and has at least its locks replaces it here: what overlaps the older one overlaps
the newer one too. So in a chain of a thousand tasks on one file only the last one is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blueflame.paths.locks import LockPath, covers, parse_locks


class UnmergedWork:
    """Finding what overlaps costs the depth of the locks and the number that is found, not the number of results."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[LockPath, ...]] = {}
        self._replaced_by: dict[str, str] = {}  # older task -> the newer one that was built on it
        self._replaces: dict[str, dict[str, None]] = {}
        self._at: dict[LockPath, dict[str, None]] = {}  # path -> current results with a lock on it
        self._below: dict[LockPath, dict[str, None]] = {}  # path -> current results with a lock on it or below it

    def add(self, owner: str, locks: Iterable[str], built_on: Iterable[str] = ()) -> None:
        self.remove(owner)
        paths = parse_locks(locks)
        for old in built_on:
            if old in self._locks and old not in self._replaced_by and _covers_all(paths, self._locks[old]):
                self._hide(old)
                self._replaced_by[old] = owner
                self._replaces.setdefault(owner, {})[old] = None
        self._locks[owner] = paths
        self._show(owner)

    def remove(self, owner: str) -> None:
        if owner not in self._locks:
            return
        newer = self._replaced_by.pop(owner, None)
        if newer is None:
            self._hide(owner)
        else:
            del self._replaces[newer][owner]
        for old in self._replaces.pop(owner, ()):
            del self._replaced_by[old]
            self._show(old)
        del self._locks[owner]

    def _show(self, owner: str) -> None:
        for path in self._locks[owner]:
            self._at.setdefault(path, {})[owner] = None
            for above in _list_prefixes(path):
                self._below.setdefault(above, {})[owner] = None

    def _hide(self, owner: str) -> None:
        for path in self._locks[owner]:
            self._at[path].pop(owner, None)
            for above in _list_prefixes(path):
                self._below[above].pop(owner, None)

    def find_overlapping(self, locks: Iterable[str]) -> tuple[str, ...]:
        found: set[str] = set()
        for path in parse_locks(locks):
            found.update(self._below.get(path, ()))
            found.update(owner for above in _list_prefixes(path) for owner in self._at.get(above, ()))
        return tuple(sorted(found))


def _list_prefixes(path: LockPath) -> Iterator[LockPath]:
    return (path[:depth] for depth in range(len(path) + 1))


def _covers_all(paths: Iterable[LockPath], others: Iterable[LockPath]) -> bool:
    return all(any(covers(path, other) for path in paths) for other in others)
