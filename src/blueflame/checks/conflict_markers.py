"""Conflict markers: where two sides could not be brought together, and whether any are left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from blueflame.model.verdict import Violation

CONFLICT_MARKERS_LEFT = "conflict_markers_left"
CONFLICT_MARKER = re.compile(rb"(<{7}|>{7}|\|{7})( .*)?\r?|={7}\r?")
CONFLICT_BEGIN, CONFLICT_END = b"<<<<<<<", b">>>>>>>"
CONTEXT_LINES = 3  # lines shown before and after a conflict


def count_markers(data: bytes | None) -> int:
    """How many lines look like a marker; in a text about merging that can be its own."""
    return 0 if data is None else sum(1 for line in data.split(b"\n") if CONFLICT_MARKER.fullmatch(line))


def find_leftover_markers(
    paths: Sequence[str], resolved: Mapping[str, bytes], sides: Sequence[Mapping[str, bytes]]
) -> Iterator[Violation]:
    """Files that have more such lines than either side had."""
    for path in paths:
        most = max((count_markers(side.get(path)) for side in sides), default=0)
        if count_markers(resolved.get(path)) > most:
            yield Violation(rule=CONFLICT_MARKERS_LEFT, path=path, detail="the conflict is still in the file")


def format_conflicts(files: Mapping[str, bytes]) -> str:
    """The conflicts of each file with a few lines around them, and nothing else of it."""
    return "\n".join(part for path, data in files.items() for part in _format_file_conflicts(path, data))


def _format_file_conflicts(path: str, data: bytes) -> Iterator[str]:
    lines = data.decode("utf-8", "replace").splitlines()
    yield f"--- {path}"
    for first, last in _find_conflicts(lines):
        yield f"@@ lines {first + 1}-{last + 1}"
        yield from lines[max(0, first - CONTEXT_LINES) : last + 1 + CONTEXT_LINES]


def _find_conflicts(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    begun: int | None = None
    for n, line in enumerate(lines):
        if line.startswith(CONFLICT_BEGIN.decode()) and begun is None:
            begun = n
        elif line.startswith(CONFLICT_END.decode()) and begun is not None:
            yield begun, n
            begun = None
