"""Which verified work that has not landed touches the same files as a new attempt.

A result that was built on another and has at least its locks replaces it here: what overlaps the older one overlaps
the newer one too. So in a chain of a thousand tasks on one file only the last one is found.
"""

from __future__ import annotations

from collections.abc import Iterable

from blueflame.paths.locks import HeldLocks, LockPath, covers, parse_locks


class UnmergedWork:
    def __init__(self) -> None:
        self._locks: dict[str, tuple[LockPath, ...]] = {}
        self._replaced_by: dict[str, str] = {}  # older task -> the newer one that was built on it

    def add(self, owner: str, locks: Iterable[str], built_on: Iterable[str] = ()) -> None:
        self.remove(owner)
        paths = parse_locks(locks)
        for old in built_on:
            if old in self._locks and old not in self._replaced_by and _covers_all(paths, self._locks[old]):
                self._replaced_by[old] = owner
        self._locks[owner] = paths

    def remove(self, owner: str) -> None:
        if self._locks.pop(owner, None) is not None:
            kept = ((old, new) for old, new in self._replaced_by.items() if owner not in (old, new))
            self._replaced_by = dict(kept)

    def find_overlapping(self, locks: Iterable[str]) -> tuple[str, ...]:
        held = HeldLocks(parse_locks(locks))
        current = (owner for owner in self._locks if owner not in self._replaced_by)
        return tuple(sorted(owner for owner in current if not held.are_free(self._locks[owner])))


def _covers_all(paths: Iterable[LockPath], others: Iterable[LockPath]) -> bool:
    return all(any(covers(path, other) for path in paths) for other in others)
