"""A waiting line: members in the order of their rank, each operation O(log n)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any


class RankedSet:
    """A set of names that can be read in rank order. Leaving is cheap: stale heap entries are dropped when met."""

    def __init__(self) -> None:
        self._rank: dict[str, tuple[Any, ...]] = {}
        self._heap: list[tuple[tuple[Any, ...], str]] = []

    def add(self, name: str, rank: tuple[Any, ...]) -> None:
        if self._rank.get(name) != rank:
            self._rank[name] = rank
            heapq.heappush(self._heap, (rank, name))

    def discard(self, name: str) -> None:
        self._rank.pop(name, None)

    def list_first(self, count: int) -> tuple[str, ...]:
        """The first `count` members; asking changes nothing."""
        taken: list[tuple[tuple[Any, ...], str]] = []
        while self._heap and len(taken) < count:
            entry = heapq.heappop(self._heap)
            if self._rank.get(entry[1]) == entry[0] and (not taken or taken[-1] != entry):
                taken.append(entry)
        for entry in taken:
            heapq.heappush(self._heap, entry)
        return tuple(name for _, name in taken)

    def __contains__(self, name: str) -> bool:
        return name in self._rank

    def __len__(self) -> int:
        return len(self._rank)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._rank, key=lambda name: (self._rank[name], name)))
