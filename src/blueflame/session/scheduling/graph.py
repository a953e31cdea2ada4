"""Two questions about directed graphs, answered without recursion: a chain of 10,000 tasks is a fair plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any


def find_components(needs: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """The strongly connected components, each sorted, by their smallest member (Kosaraju's two walks)."""
    behind = reverse_edges(needs)
    seen: set[str] = set()
    finished = [name for start in needs for name in _walk_depth_first(start, needs, seen)]
    seen = set()
    return tuple(
        sorted(tuple(sorted(ring)) for start in reversed(finished) if (ring := _walk_depth_first(start, behind, seen)))
    )


def reverse_edges(needs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Who stands behind each one; names outside the graph are left out."""
    behind: dict[str, list[str]] = {name: [] for name in needs}
    for name, wanted in needs.items():
        for need in wanted:
            if need in behind:
                behind[need].append(name)
    return behind


def _walk_depth_first(start: str, edges: Mapping[str, Collection[str]], seen: set[str]) -> list[str]:
    """All that can be reached from here and was not seen before, whoever is left first first."""
    if start in seen:
        return []
    seen.add(start)
    left: list[str] = []
    path: list[tuple[str, Iterator[str]]] = [(start, iter(edges[start]))]
    while path:
        rest = path[-1][1]
        step = next((one for one in rest if one in edges and one not in seen), None)
        if step is None:
            left.append(path.pop()[0])
        else:
            seen.add(step)
            path.append((step, iter(edges[step])))
    return left


def sort_topologically(needs: Mapping[str, Iterable[str]], key: Callable[[str], Any]) -> tuple[str, ...]:
    """Everyone after those they need; among those who may go, the smallest key goes first.

    Nobody is lost: who stands in a ring (which a checked plan has not) goes last, by key.
    """
    waits = {name: {need for need in wanted if need in needs and need != name} for name, wanted in needs.items()}
    behind = reverse_edges(waits)
    heap: list[tuple[Any, str]] = [(key(name), name) for name, wanted in waits.items() if not wanted]
    heapify(heap)
    order: list[str] = []
    while heap:
        name = heappop(heap)[1]
        order.append(name)
        for follower in behind[name]:
            waits[follower].discard(name)
            if not waits[follower]:
                heappush(heap, (key(follower), follower))
    return (*order, *sorted((name for name in needs if waits[name]), key=key))
