"""The timeline of a session: where each attempt, gate and landing is, in percent of its width.

A long pause, such as a night, is drawn as a short gap with its length, so that the rest keeps its space. The same spans
always give the same picture.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from blueflame.lazy_dataclass import dataclass

MIN_WIDTH = 0.5  # percent: a shorter bar would be too small to see and to touch
GAP_WIDTH = 0.04  # of the busy time
LONG_PAUSE = 0.12  # of the busy time: a longer pause becomes a gap
MIN_PAUSE_SECONDS = 30.0
MAX_TICKS = 7
MIN_TICK_DISTANCE = 8.0  # percent
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
MAX_ROWS = 300
MAX_LANES = 3


class Span(NamedTuple):
    """From when to when an attempt ran, or a gate waited for its answer."""

    key: int
    subject: str
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
    waits: tuple[Row, ...] = ()  # at most one
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
    """Converts times to percent; gaps and the time between them have different scales."""

    pieces: tuple[_Piece, ...]
    total: float

    def compute_percent(self, at: float) -> float:
        n = max(bisect_right(self.pieces, at, key=lambda piece: piece.began) - 1, 0)
        piece = self.pieces[n]
        part = (min(max(at, piece.began), piece.ended) - piece.began) / ((piece.ended - piece.began) or 1.0)
        return round(100 * (piece.left + part * piece.width) / self.total, 3)


def lay_out(
    spans: Sequence[Span], waits: Sequence[Span], landings: Sequence[tuple[float, str]], *, began: float, until: float
) -> Timeline:
    busy = [(span.began, span.ended) for span in spans] + [(at, at) for at, _ in landings]
    scale, gaps = _build_scale(busy, began, max(until, began + 1.0))
    by_subject: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda each: (each.began, each.subject, each.key)):
        by_subject.setdefault(span.subject, []).append(span)
    rows = tuple(_build_row(subject, own, scale) for subject, own in by_subject.items())
    asked = sorted(waits, key=lambda each: each.began)
    return Timeline(
        rows=rows[:MAX_ROWS],
        waits=(_build_row("", asked, scale),) if asked else (),
        landings=tuple(Mark(name, at, scale.compute_percent(at)) for at, name in landings),
        ticks=tuple(_iter_ticks(scale, gaps, began)),
        gaps=gaps,
        hidden=max(len(rows) - MAX_ROWS, 0),
    )


def _build_scale(busy: Iterable[tuple[float, float]], began: float, until: float) -> tuple[Scale, tuple[Gap, ...]]:
    work = _join_stretches(busy, began, until)
    pauses = _find_pauses(work, began, until)
    worked = sum(end - start for start, end in work) or (until - began)
    longest = max(MIN_PAUSE_SECONDS, LONG_PAUSE * worked)
    cut = {pause for pause in pauses if pause[1] - pause[0] > longest} if work else set()
    gap = GAP_WIDTH * (worked + sum(end - start for start, end in pauses if (start, end) not in cut))
    pieces, left = list[_Piece](), 0.0
    for start, end in sorted((*work, *pauses)):
        width = gap if (start, end) in cut else end - start
        pieces.append(_Piece(start, end, left, width))
        left += width
    scale = Scale(tuple(pieces), left or 1.0)
    return scale, tuple(
        Gap(scale.compute_percent(start), round(100 * gap / scale.total, 3), end - start) for start, end in sorted(cut)
    )


def _join_stretches(busy: Iterable[tuple[float, float]], began: float, until: float) -> list[tuple[float, float]]:
    """Join overlapping stretches, and cut them to the session."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted((max(start, began), min(end, until)) for start, end in busy):
        if end < start:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _find_pauses(work: Sequence[tuple[float, float]], began: float, until: float) -> list[tuple[float, float]]:
    edges = [began, *(edge for stretch in work for edge in stretch), until]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]


def _build_row(subject: str, spans: Sequence[Span], scale: Scale) -> Row:
    """Put each span into the first free lane; when all are taken, into the one that is free soonest."""
    ends: list[float] = []
    bars = []
    for span in spans:
        right = scale.compute_percent(span.ended)
        left = min(scale.compute_percent(span.began), 100.0 - MIN_WIDTH)
        width = max(right - left, MIN_WIDTH)
        lane = next((n for n, end in enumerate(ends) if end <= left + 0.01), len(ends))
        if lane == MAX_LANES:
            lane = ends.index(min(ends))
        ends[lane : lane + 1] = [max(right, left + MIN_WIDTH / 2)]  # a widened bar may touch the next
        bars.append(Bar(span.key, lane, left, round(width, 3)))
    return Row(subject, tuple(bars), max(len(ends), 1))


def _iter_ticks(scale: Scale, gaps: Sequence[Gap], began: float) -> Iterator[Tick]:
    """Yield round times, none of them in a gap or too near to another."""
    shown = [piece for piece in scale.pieces if not _is_cut(piece, gaps, scale)]
    step = next((step for step in STEPS if scale.total / step <= MAX_TICKS), STEPS[-1])
    last = -MIN_TICK_DISTANCE
    for piece in shown:
        first = -(-(piece.began - began) // step)
        n = int(first)
        while began + n * step <= piece.ended:
            left = scale.compute_percent(began + n * step)
            free = all(not gap.left - MIN_TICK_DISTANCE / 2 < left < gap.left + gap.width for gap in gaps)
            if free and left - last >= MIN_TICK_DISTANCE and left <= 100.0 - MIN_TICK_DISTANCE / 2:
                yield Tick(left, float(n * step))
                last = left
            n += max(1, int(piece.width // (step * 50)))


def _is_cut(piece: _Piece, gaps: Sequence[Gap], scale: Scale) -> bool:
    left = round(100 * piece.left / scale.total, 3)
    return any(gap.left == left and gap.seconds == piece.ended - piece.began for gap in gaps)
