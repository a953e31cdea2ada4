"""The small parts that views are made of. A tone is good, bad, warn, quiet, id or "": each face has its own colours."""

from __future__ import annotations

from typing import NamedTuple


class Fact(NamedTuple):
    """A name and a value, such as `Cost: $1.20`."""

    name: str
    text: str
    tone: str = ""
    note: str = ""  # small print below: how the figure was made


class MarkedLine(NamedTuple):
    """A line that begins with a mark, such as `✓ [api] approved: task-001`."""

    mark: str
    tone: str
    text: str
