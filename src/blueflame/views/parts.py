"""The small parts that views are made of. A tone is good, bad, warn, quiet, id or "": each face has its own colours."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, NotRequired, TypedDict

from blueflame.lazy_dataclass import dataclass


class NamedValue(NamedTuple):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailsView:
    """One thing in detail: a gate, a task, an attempt. Empty parts are not drawn."""

    title: str
    aside: tuple[str, ...] = ()
    facts: tuple[NamedValue, ...] = ()
    points: tuple[str, ...] = ()
    tasks: tuple[tuple[str, str, str], ...] = ()  # id, title, when it began
    quote: tuple[str, ...] = ()
    lines: tuple[MarkedLine, ...] = ()
    document: tuple[str, ...] = ()  # Markdown, line by line
    history: tuple[tuple[str, str, str], ...] = ()  # earlier attempts: name, result, notes


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class OpenGate:
    id: str
    asks: str


class Brief(TypedDict):
    """What says nothing is left out: a conversation pays for each character."""

    session: str
    request: NotRequired[str]  # in the first one
    state: str
    running: bool
    tasks: NotRequired[Mapping[str, int]]  # by state
    cost: str
    events: NotRequired[tuple[str, ...]]
    cursor: int  # pass it as `since` to see only what is new
    more: NotRequired[bool]  # there are events behind the cursor
    gates: NotRequired[tuple[OpenGate, ...]]
    next: NotRequired[str]


def pick(value: object, names: str) -> dict[str, Any]:
    """Take the fields of these names as JSON has them: an enum as its value, a tuple as a list."""
    return {name: _make_plain(getattr(value, name)) for name in names.split()}


def _make_plain(value: Any) -> Any:  # noqa: ANN401 (any field)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
