"""Conflict markers: where two sides could not be brought together, and whether any are left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from blueflame.model.verdict import Violation

MARKERS_LEFT = "conflict_markers_left"
MARK = re.compile(rb"(<{7}|>{7}|\|{7})( .*)?\r?|={7}\r?")
BEGIN, END = b"<<<<<<<", b">>>>>>>"
AROUND = 3  # lines shown before and after a conflict


def marks(data: bytes | None) -> int:
    """How many lines look like a marker; in a text about merging that can be its own."""
    return 0 if data is None else sum(1 for line in data.split(b"\n") if MARK.fullmatch(line))


def left_over(
    paths: Sequence[str], resolved: Mapping[str, bytes], sides: Sequence[Mapping[str, bytes]]
) -> Iterator[Violation]:
    """Files that have more such lines than either side had."""
    for path in paths:
        most = max((marks(side.get(path)) for side in sides), default=0)
        if marks(resolved.get(path)) > most:
            yield Violation(rule=MARKERS_LEFT, path=path, detail="the conflict is still in the file")


def shown(files: Mapping[str, bytes]) -> str:
    """The conflicts of each file with a few lines around them, and nothing else of it."""
    return "\n".join(part for path, data in files.items() for part in _parts(path, data))


def _parts(path: str, data: bytes) -> Iterator[str]:
    lines = data.decode("utf-8", "replace").splitlines()
    yield f"--- {path}"
    for first, last in _places(lines):
        yield f"@@ lines {first + 1}-{last + 1}"
        yield from lines[max(0, first - AROUND) : last + 1 + AROUND]


def _places(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    begun: int | None = None
    for n, line in enumerate(lines):
        if line.startswith(BEGIN.decode()) and begun is None:
            begun = n
        elif line.startswith(END.decode()) and begun is not None:
            yield begun, n
            begun = None
