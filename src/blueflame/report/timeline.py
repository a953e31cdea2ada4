"""Where each attempt, question and landing of a session stands on a line of time, in percent of its width.

Nights in which nobody worked would squeeze everything else into a corner: a long pause becomes a short gap that says
how long it was. The same spans always give the same picture.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEAST_WIDTH = 0.5  # percent: what is shorter can still be seen and met with a finger
GAP_WIDTH = 0.04  # of the busy time
LONG_PAUSE = 0.12  # of the busy time: what is longer is cut out
SHORTEST_PAUSE = 30.0  # seconds
TICKS = 7
NEAREST_TICKS = 8.0  # percent
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
MOST_ROWS = 300
MOST_LANES = 3


class Span(NamedTuple):
    key: int
    subject: str
    began: float
    ended: float


class Wait(NamedTuple):
    """Somebody was asked, and how long it took."""

    key: int
    began: float
    ended: float


class Bar(NamedTuple):
    key: int
    lane: int
    left: float
    width: float


class Row(NamedTuple):
    subject: str
    bars: tuple[Bar, ...]
    lanes: int


class Mark(NamedTuple):
    name: str
    at: float
    left: float


class Tick(NamedTuple):
    left: float
    seconds: float  # since the beginning


class Gap(NamedTuple):
    left: float
    width: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    rows: tuple[Row, ...] = ()
    waits: tuple[Row, ...] = ()  # one or none
    landings: tuple[Mark, ...] = ()
    ticks: tuple[Tick, ...] = ()
    gaps: tuple[Gap, ...] = ()
    hidden: int = 0  # rows that are not drawn


class _Piece(NamedTuple):
    began: float
    ended: float
    left: float  # in units of shown seconds
    width: float


@dataclass(frozen=True, slots=True)
class Scale:
    """From moments to percent, piece by piece."""

    pieces: tuple[_Piece, ...]
    total: float

    def percent(self, at: float) -> float:
        n = max(bisect_right(self.pieces, at, key=lambda piece: piece.began) - 1, 0)
        piece = self.pieces[n]
        part = (min(max(at, piece.began), piece.ended) - piece.began) / ((piece.ended - piece.began) or 1.0)
        return round(100 * (piece.left + part * piece.width) / self.total, 3)


def lay_out(
    spans: Sequence[Span], waits: Sequence[Wait], landings: Sequence[tuple[float, str]], *, began: float, until: float
) -> Timeline:
    busy = [(span.began, span.ended) for span in spans] + [(at, at) for at, _ in landings]
    scale, gaps = scale_of(busy, began, max(until, began + 1.0))
    by_subject: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda each: (each.began, each.subject, each.key)):
        by_subject.setdefault(span.subject, []).append(span)
    rows = tuple(_row(subject, own, scale) for subject, own in by_subject.items())
    asked = [Span(wait.key, "", wait.began, wait.ended) for wait in sorted(waits, key=lambda each: each.began)]
    return Timeline(
        rows=rows[:MOST_ROWS],
        waits=(_row("", asked, scale),) if asked else (),
        landings=tuple(Mark(name, at, scale.percent(at)) for at, name in landings),
        ticks=tuple(_ticks(scale, gaps, began)),
        gaps=gaps,
        hidden=max(len(rows) - MOST_ROWS, 0),
    )


def scale_of(busy: Iterable[tuple[float, float]], began: float, until: float) -> tuple[Scale, tuple[Gap, ...]]:
    work = _joined(busy, began, until)
    pauses = _between(work, began, until)
    worked = sum(end - start for start, end in work) or (until - began)
    longest = max(SHORTEST_PAUSE, LONG_PAUSE * worked)
    cut = {pause for pause in pauses if pause[1] - pause[0] > longest} if work else set()
    gap = GAP_WIDTH * (worked + sum(end - start for start, end in pauses if (start, end) not in cut))
    pieces, left = list[_Piece](), 0.0
    for start, end in sorted((*work, *pauses)):
        width = gap if (start, end) in cut else end - start
        pieces.append(_Piece(start, end, left, width))
        left += width
    scale = Scale(tuple(pieces), left or 1.0)
    return scale, tuple(
        Gap(scale.percent(start), round(100 * gap / scale.total, 3), end - start) for start, end in sorted(cut)
    )


def _joined(busy: Iterable[tuple[float, float]], began: float, until: float) -> list[tuple[float, float]]:
    """Overlapping stretches as one, all of them within the session."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted((max(start, began), min(end, until)) for start, end in busy):
        if end < start:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _between(work: Sequence[tuple[float, float]], began: float, until: float) -> list[tuple[float, float]]:
    edges = [began, *(edge for stretch in work for edge in stretch), until]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]


def _row(subject: str, spans: Sequence[Span], scale: Scale) -> Row:
    """Each span in the first lane that is free; when all are taken, in the one that is free soonest."""
    ends: list[float] = []
    bars = []
    for span in spans:
        right = scale.percent(span.ended)
        left = min(scale.percent(span.began), 100.0 - LEAST_WIDTH)
        width = max(right - left, LEAST_WIDTH)
        lane = next((n for n, end in enumerate(ends) if end <= left + 0.01), len(ends))
        if lane == MOST_LANES:
            lane = ends.index(min(ends))
        ends[lane : lane + 1] = [max(right, left + LEAST_WIDTH / 2)]  # what is only drawn wider may touch its neighbour
        bars.append(Bar(span.key, lane, left, round(width, 3)))
    return Row(subject, tuple(bars), max(len(ends), 1))


def _ticks(scale: Scale, gaps: Sequence[Gap], began: float) -> Iterator[Tick]:
    """Round figures, none of them in a gap, and none too near to another."""
    shown = [piece for piece in scale.pieces if not _is_cut(piece, gaps, scale)]
    step = next((step for step in STEPS if scale.total / step <= TICKS), STEPS[-1])
    last = -NEAREST_TICKS
    for piece in shown:
        first = -(-(piece.began - began) // step)
        n = int(first)
        while began + n * step <= piece.ended:
            left = scale.percent(began + n * step)
            free = all(not gap.left - NEAREST_TICKS / 2 < left < gap.left + gap.width for gap in gaps)
            if free and left - last >= NEAREST_TICKS and left <= 100.0 - NEAREST_TICKS / 2:
                yield Tick(left, float(n * step))
                last = left
            n += max(1, int(piece.width // (step * 50)))


def _is_cut(piece: _Piece, gaps: Sequence[Gap], scale: Scale) -> bool:
    left = round(100 * piece.left / scale.total, 3)
    return any(gap.left == left and gap.seconds == piece.ended - piece.began for gap in gaps)
