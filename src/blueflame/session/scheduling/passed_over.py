"""How often each waiting task has been passed over, and whose patience is at an end.

A claim passes over everybody who waits and ranks before the claimed task. Counting that one by one would cost as much
as there are tasks; a tree of maxima with pending additions does it in the depth of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator

ABSENT = float("-inf")


class Patience:
    """Places 0, 1, ... in order of rank; a smaller place goes first."""

    def __init__(self, places: int, limit: int) -> None:
        self._limit = limit
        self._leaves = 1 << max(places - 1, 0).bit_length()
        self._most: list[float] = [ABSENT] * (2 * self._leaves)  # the largest count below, additions here included
        self._added = [0] * (2 * self._leaves)  # what is to be added to all below

    def begin(self, place: int) -> None:
        """Somebody waits here from now on, and was passed over by nobody so far."""
        leaf = self._leaves + place
        above = sum(self._added[node] for node in _ancestors(leaf))
        self._most[leaf] = -above
        self._renew(leaf)

    def end(self, place: int) -> None:
        leaf = self._leaves + place
        self._most[leaf] = ABSENT
        self._renew(leaf)

    def passed_over_by(self, place: int) -> Iterator[int]:
        """A task of this place was claimed; the places whose patience is at an end now are given, and forgotten."""
        self._add_before(place)
        while self._most[1] >= self._limit:
            found = self._first_over()
            self.end(found)
            yield found

    def _add_before(self, place: int) -> None:
        right = self._leaves + place
        while right > 1:
            if right & 1:
                self._most[right - 1] += 1
                self._added[right - 1] += 1
            right >>= 1
        if place:
            self._renew(self._leaves + place - 1)

    def _first_over(self) -> int:
        node, above = 1, 0
        while node < self._leaves:
            above += self._added[node]
            node *= 2
            if self._most[node] + above < self._limit:
                node += 1
        return node - self._leaves

    def _renew(self, leaf: int) -> None:
        most, added = self._most, self._added
        for node in _ancestors(leaf):
            most[node] = max(most[2 * node], most[2 * node + 1]) + added[node]


def _ancestors(leaf: int) -> Iterator[int]:
    node = leaf >> 1
    while node:
        yield node
        node >>= 1
