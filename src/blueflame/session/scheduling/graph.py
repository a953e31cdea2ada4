"""Components and topological order of directed graphs, without recursion: a plan can be a chain of 10,000 tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any


def find_components(needs: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the strongly connected components, each sorted, by their smallest member (Kosaraju's algorithm)."""
    reversed_needs = reverse_edges(needs)
    seen: set[str] = set()
    finished = [name for start in needs for name in _walk_depth_first(start, needs, seen)]
    seen = set()
    components = (_walk_depth_first(start, reversed_needs, seen) for start in reversed(finished))
    return tuple(sorted(tuple(sorted(component)) for component in components if component))


def reverse_edges(needs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return for each node the nodes that need it; names outside the graph are left out."""
    dependants: dict[str, list[str]] = {name: [] for name in needs}
    for name, own_needs in needs.items():
        for need in own_needs:
            if need in dependants:
                dependants[need].append(name)
    return dependants


def _walk_depth_first(start: str, edges: Mapping[str, Collection[str]], seen: set[str]) -> list[str]:
    """Return the unseen nodes that can be reached from `start`, in postorder."""
    if start in seen:
        return []
    seen.add(start)
    postorder: list[str] = []
    path: list[tuple[str, Iterator[str]]] = [(start, iter(edges[start]))]
    while path:
        rest = path[-1][1]
        step = next((one for one in rest if one in edges and one not in seen), None)
        if step is None:
            postorder.append(path.pop()[0])
        else:
            seen.add(step)
            path.append((step, iter(edges[step])))
    return postorder


def sort_topologically(needs: Mapping[str, Iterable[str]], key: Callable[[str], Any]) -> tuple[str, ...]:
    """Sort nodes after the nodes they need; of those that are ready, the smallest key comes first.

    Nodes on a cycle, which a checked plan does not have, come last, by key.
    """
    waits = {name: {need for need in own if need in needs and need != name} for name, own in needs.items()}
    dependants = reverse_edges(waits)
    heap: list[tuple[Any, str]] = [(key(name), name) for name, missing in waits.items() if not missing]
    heapify(heap)
    order: list[str] = []
    while heap:
        name = heappop(heap)[1]
        order.append(name)
        for dependant in dependants[name]:
            waits[dependant].discard(name)
            if not waits[dependant]:
                heappush(heap, (key(dependant), dependant))
    return (*order, *sorted((name for name in needs if waits[name]), key=key))
