"""A picture of which task waits for which: layers from left to right, few crossings, the same for the same plan.

The way of Sugiyama: each task stands one layer behind the last one it needs, long arrows pass through places of their
own, and a few sweeps by the middle of the neighbours put each layer in order. Tasks that neither wait nor are waited
for stand apart, below. An arrow that follows from others is not drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from blueflame.model.task import Task
from blueflame.session.scheduling.graph import reverse_edges, sort_topologically

WIDTH, HEIGHT = 190, 46
ACROSS, DOWN = 56, 14
MARGIN = 8
LANE = 18  # the height of a place that an arrow passes through
SWEEPS = 6
MOST_TASKS = 250
APART_COLUMNS = 4


class Node(NamedTuple):
    task: str
    x: int
    y: int


class Arrow(NamedTuple):
    start: str
    end: str
    points: tuple[tuple[int, int], ...]  # from the right side of one to the left side of the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    width: int = 0
    height: int = 0
    nodes: tuple[Node, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    hidden: int = 0  # tasks that are not drawn
    implied: int = 0  # arrows that follow from others


def draw(tasks: Sequence[Task]) -> Graph:
    """At most MOST_TASKS, those first that come first."""
    names = {task.id for task in tasks}
    needs = {task.id: sorted({need for need in task.dependencies if need in names}) for task in tasks}
    order = sort_topologically(needs, lambda name: name)
    kept = {name: needs[name] for name in order[:MOST_TASKS]}
    kept = {name: [need for need in wanted if need in kept and need != name] for name, wanted in kept.items()}
    lean = _without_implied(kept, [name for name in order if name in kept])
    behind = reverse_edges(lean)
    linked = [name for name in order if name in lean and (lean[name] or behind[name])]
    apart = sorted(name for name in lean if not lean[name] and not behind[name])
    picture = _Picture({name: lean[name] for name in linked}, linked)
    return picture.drawn(
        apart,
        hidden=len(order) - len(kept),
        implied=sum(map(len, kept.values())) - sum(map(len, lean.values())),
    )


def _without_implied(needs: Mapping[str, Sequence[str]], order: Sequence[str]) -> dict[str, list[str]]:
    """A need that another need has already is left out."""
    reach: dict[str, set[str]] = {}
    lean: dict[str, list[str]] = {}
    for name in order:
        far = set[str]().union(*(reach.get(need, ()) for need in needs[name]))
        lean[name] = [need for need in needs[name] if need not in far]
        reach[name] = far | set(needs[name])
    return lean


Place = tuple[str, ...]
"""(task,) for a task; (from, to, layer) for a place that an arrow passes through."""


class _Picture:
    def __init__(self, needs: Mapping[str, Sequence[str]], order: Sequence[str]) -> None:
        self.layer: dict[str, int] = {}
        for name in order:
            self.layer[name] = 1 + max((self.layer.get(need, -1) for need in needs[name]), default=-1)
        self.ways = {(need, name): self._way(need, name) for name in order for need in sorted(needs[name])}
        self.layers = self._places(order)
        self._sort()
        self.y = self._heights()

    def _way(self, start: str, end: str) -> tuple[Place, ...]:
        between = [(start, end, str(n)) for n in range(self.layer[start] + 1, self.layer[end])]
        return ((start,), *between, (end,))

    def _places(self, order: Sequence[str]) -> list[list[Place]]:
        layers: list[list[Place]] = [[] for _ in range(max(self.layer.values(), default=-1) + 1)]
        for name in order:
            layers[self.layer[name]].append((name,))
        for (start, _end), way in self.ways.items():
            for n, place in enumerate(way[1:-1], start=self.layer[start] + 1):
                layers[n].append(place)
        return layers

    def _neighbours(self) -> tuple[dict[Place, list[Place]], dict[Place, list[Place]]]:
        before: dict[Place, list[Place]] = {}
        after: dict[Place, list[Place]] = {}
        for way in self.ways.values():
            for one, other in pairwise(way):
                after.setdefault(one, []).append(other)
                before.setdefault(other, []).append(one)
        return before, after

    def _sort(self) -> None:
        before, after = self._neighbours()
        for sweep in range(SWEEPS):
            forth = sweep % 2 == 0
            layers = self.layers if forth else self.layers[::-1]
            for fixed, moved in pairwise(layers):
                rank = {place: n for n, place in enumerate(fixed)}
                beside = before if forth else after
                old = {place: n for n, place in enumerate(moved)}
                moved.sort(key=lambda place: (_middle(beside.get(place, ()), rank, old[place]), old[place]))

    def _heights(self) -> dict[Place, int]:
        """Each layer is packed; then everybody moves towards the middle of their neighbours as far as there is room.

        Nothing becomes taller than the layer that holds most.
        """
        y: dict[Place, float] = {}
        for layer in self.layers:
            top = 0.0
            for place in layer:
                y[place] = top
                top += _height(place) + DOWN
        room = max((sum(_height(place) + DOWN for place in layer) for layer in self.layers), default=0)
        before, after = self._neighbours()
        for sweep in range(SWEEPS):
            forth = sweep % 2 == 0
            for layer in self.layers if forth else self.layers[::-1]:
                _settle(layer, y, before if forth else after, room)
        top = min(y.values(), default=0.0)
        return {place: round(at - top) + MARGIN for place, at in y.items()}

    def drawn(self, apart: Sequence[str], *, hidden: int, implied: int) -> Graph:
        nodes = [Node(name, self._x(n), self.y[name,]) for name, n in self.layer.items()]
        bottom = max((self.y[place] + _height(place) for place in self.y), default=0)
        columns = max(APART_COLUMNS, len(self.layers))
        below = bottom + (2 * DOWN if nodes else MARGIN)
        nodes += [
            Node(name, self._x(n % columns), below + n // columns * (HEIGHT + DOWN)) for n, name in enumerate(apart)
        ]
        return Graph(
            width=max((node.x + WIDTH for node in nodes), default=0) + MARGIN,
            height=max((node.y + HEIGHT for node in nodes), default=0) + MARGIN,
            nodes=tuple(sorted(nodes)),
            arrows=tuple(self._arrows()),
            hidden=hidden,
            implied=implied,
        )

    def _arrows(self) -> Iterator[Arrow]:
        for (start, end), way in sorted(self.ways.items()):
            points = [(self._x(self.layer[start]) + WIDTH, self.y[start,] + HEIGHT // 2)]
            for n, place in enumerate(way[1:-1], start=self.layer[start] + 1):
                middle = self.y[place] + LANE // 2
                points += [(self._x(n), middle), (self._x(n) + WIDTH, middle)]
            points.append((self._x(self.layer[end]), self.y[end,] + HEIGHT // 2))
            yield Arrow(start, end, tuple(points))

    @staticmethod
    def _x(layer: int) -> int:
        return MARGIN + layer * (WIDTH + ACROSS)


def _middle(beside: Iterable[Place], rank: Mapping[Place, int], own: int) -> float:
    found = [rank[place] for place in beside if place in rank]
    return sum(found) / len(found) if found else float(own)


def _height(place: Place) -> int:
    return HEIGHT if len(place) == 1 else LANE


def _settle(
    layer: Sequence[Place], y: dict[Place, float], beside: Mapping[Place, Sequence[Place]], room: float
) -> None:
    """Nobody stands on another, nobody leaves the room: once pushed down, once pushed up, and the middle of both."""
    wished = {place: _wish(place, y, beside) for place in layer}
    needs = {place: float(_height(place) + DOWN) for place in layer}
    downwards, upwards = {}, {}
    free, below = 0.0, sum(needs.values())
    for place in layer:
        downwards[place] = min(max(wished[place], free), room - below)
        free, below = downwards[place] + needs[place], below - needs[place]
    free, above = room, sum(needs.values())
    for place in reversed(layer):
        above -= needs[place]
        upwards[place] = max(min(wished[place], free - needs[place]), above)
        free = upwards[place]
    for place in layer:
        y[place] = (downwards[place] + upwards[place]) / 2


def _wish(place: Place, y: Mapping[Place, float], beside: Mapping[Place, Sequence[Place]]) -> float:
    others = beside.get(place, ())
    if not others:
        return y[place]
    middle = sum(y[other] + _height(other) / 2 for other in others) / len(others)
    return middle - _height(place) / 2
