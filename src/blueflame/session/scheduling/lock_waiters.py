"""Who waits for which locks, kept so that the first waiter whom nobody blocks is known at any moment.

Each waiter sits at one of its locks in a tree of paths. Every node offers upwards the first waiter at or below it whom
nothing at or below it blocks; the root's offer is the answer. Holding, releasing, coming and going touch only the nodes
above the locks concerned, so nothing here costs more as the plan grows wider.

A holder blocks every waiter on an overlapping path. A reservation blocks only those who rank behind its owner.
Both are keys in one tree: a holder's key is smaller than any rank.
"""

from __future__ import annotations

from blueflame.paths.locks import LockPath, LockTree, Node, Smallest
from blueflame.session.scheduling.ranking import Rank

BEFORE_ALL = float("-inf")


class Bench:
    """What waits at one node, and what its children offer."""

    __slots__ = ("offer", "offers", "waiters")

    def __init__(self) -> None:
        self.waiters: Smallest[Rank] = Smallest()
        self.offers: Smallest[Rank] = Smallest()
        self.offer: Rank | None = None


class WaitingRoom:
    def __init__(self) -> None:
        self._tree: LockTree[Rank] = LockTree()
        self._benches: dict[Node[Rank], Bench] = {}
        self._locks: dict[Rank, tuple[LockPath, ...]] = {}
        self._seats: dict[Rank, Node[Rank]] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def enter(self, waiter: Rank, locks: tuple[LockPath, ...]) -> None:
        self._locks[waiter] = locks
        self._sit(waiter, self._tree.node(locks[0]))

    def leave(self, waiter: Rank) -> None:
        if self._locks.pop(waiter, None) is not None:
            self._rise(waiter)

    def hold(self, owner: str, locks: tuple[LockPath, ...]) -> None:
        self._claim((BEFORE_ALL, 0.0, owner), locks)

    def release(self, owner: str, locks: tuple[LockPath, ...]) -> None:
        self._free((BEFORE_ALL, 0.0, owner), locks)

    def reserve(self, waiter: Rank, locks: tuple[LockPath, ...]) -> None:
        self._claim(waiter, locks)

    def unreserve(self, waiter: Rank, locks: tuple[LockPath, ...]) -> None:
        self._free(waiter, locks)

    def first(self) -> Rank | None:
        """The first waiter who is blocked at none of its locks."""
        root = self._tree.node(())
        while (waiter := self._bench(root).offer) is not None:
            blocked = next((path for path in self._locks[waiter] if self._blocks(path, waiter)), None)
            if blocked is None:
                return waiter
            # like a watched literal: it waits where it is blocked, and is not looked at again until that changes
            self._rise(waiter)
            self._sit(waiter, self._tree.node(blocked))
        return None

    def blocker(self, waiter: Rank, locks: tuple[LockPath, ...]) -> str | None:
        """Who stands in its way: the smallest holder, else the first reservation before it."""
        rival = self._tree.conflict(locks)
        return rival[2] if rival is not None and rival < waiter else None

    def _blocks(self, path: LockPath, waiter: Rank) -> bool:
        return self.blocker(waiter, (path,)) is not None

    def _claim(self, key: Rank, locks: tuple[LockPath, ...]) -> None:
        self._tree.hold(key, locks)
        self._refresh_all(locks)

    def _free(self, key: Rank, locks: tuple[LockPath, ...]) -> None:
        self._tree.release(key)
        self._refresh_all(locks)

    def _refresh_all(self, locks: tuple[LockPath, ...]) -> None:
        for path in locks:
            self._refresh(self._tree.node(path))

    def _sit(self, waiter: Rank, node: Node[Rank]) -> None:
        self._seats[waiter] = node
        self._bench(node).waiters.add(waiter)
        self._refresh(node)

    def _rise(self, waiter: Rank) -> None:
        node = self._seats.pop(waiter)
        self._bench(node).waiters.discard(waiter)
        self._refresh(node)

    def _bench(self, node: Node[Rank]) -> Bench:
        bench = self._benches.get(node)
        if bench is None:
            bench = self._benches[node] = Bench()
        return bench

    def _refresh(self, start: Node[Rank]) -> None:
        """Work out anew what each node from here up to the root offers."""
        node: Node[Rank] | None = start
        while node is not None:
            bench = self._bench(node)
            old, bench.offer = bench.offer, _offer(node, bench)
            if node.parent is not None and old != bench.offer:
                offers = self._bench(node.parent).offers
                if old is not None:
                    offers.discard(old)
                if bench.offer is not None:
                    offers.add(bench.offer)
            node = node.parent


def _offer(node: Node[Rank], bench: Bench) -> Rank | None:
    own, best = bench.waiters.first(), bench.offers.first()
    below = node.below.first()
    if own is not None and (below is None or below >= own) and (best is None or own < best):
        best = own
    here = node.here.first()
    # who is blocked here may hide nobody: all others at or below this node rank behind it and are blocked as well
    return None if best is not None and here is not None and here < best else best
