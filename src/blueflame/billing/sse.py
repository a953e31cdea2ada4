"""Cut answers of model APIs into parts as the bytes arrive: server-sent events, or JSON objects.

Any chunking gives the same parts, nothing raises, and a part of any size takes bounded memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from blueflame.lazy_dataclass import dataclass

Json: TypeAlias = Any

MAX_PART_BYTES = 8 * 1024 * 1024  # of a larger part only both ends are kept
KEPT_HEAD_BYTES, KEPT_TAIL_BYTES = 64 * 1024, 256 * 1024

_LINE_END = re.compile(rb"\r\n|\n|\r")
_OUTSIDE = re.compile(rb'["{}\[\]]')
_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)  # possessive: no backtracking
_LEADING_BYTES = b"\xef\xbb\xbf \t\r\n"  # a byte order mark and blanks


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One event, or one object. `cut` when it was too large: then `data` is its beginning and `tail` its end."""

    name: str
    data: bytes
    cut: bool = False
    tail: bytes = b""


class _PartBuffer:
    """Bytes of an incomplete part."""

    __slots__ = ("_head", "_largest", "_pieces", "_size", "_tail")

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self.clear()

    def clear(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None
        self._tail = b""

    def add(self, data: bytes) -> None:
        if self._head is None:
            self._pieces.append(data)
            self._size += len(data)
            if self._size > self._largest:
                self._cut(b"".join(self._pieces))
        elif data:
            self._tail = (self._tail + data[-KEPT_TAIL_BYTES:])[-KEPT_TAIL_BYTES:]

    def add_cut(self, head: bytes, tail: bytes) -> None:
        """Add a line that was cut already."""
        if self._head is None:
            self._cut(b"".join((*self._pieces, head)))
        self.add(tail)

    def _cut(self, whole: bytes) -> None:
        self._pieces = []
        self._head, self._tail = whole[: min(KEPT_HEAD_BYTES, self._largest)], whole[-KEPT_TAIL_BYTES:]

    def build_part(self, name: str) -> AnswerPart:
        if self._head is None:
            return AnswerPart(name, b"".join(self._pieces))
        return AnswerPart(name, self._head, cut=True, tail=self._tail)

    @property
    def empty(self) -> bool:
        return self._head is None and not self._size


class EventParser:
    """Server-sent events: LF, CRLF or CR, data in several lines, comments."""

    def __init__(self, largest: int = MAX_PART_BYTES) -> None:
        self._line = _PartBuffer(largest)
        self._data = _PartBuffer(largest)
        self._has_data = False
        self._name = ""
        self._after_cr = False

    def feed(self, data: bytes) -> Iterator[AnswerPart]:
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if not data:
            return
        self._after_cr = data.endswith(b"\r")
        *ended, rest = _LINE_END.split(data)
        for piece in ended:
            self._line.add(piece)
            yield from self._take_line()
        self._line.add(rest)

    def finish(self) -> Iterator[AnswerPart]:
        """Yield an event without its final empty line."""
        if not self._line.empty:
            yield from self._take_line()
        yield from self._dispatch()

    def _take_line(self) -> Iterator[AnswerPart]:
        line = self._line.build_part("")
        self._line.clear()
        if not line.data:
            yield from self._dispatch()
            return
        field, _, value = line.data.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value[:200].decode(errors="replace")
        elif field == b"data":
            if self._has_data:
                self._data.add(b"\n")
            self._has_data = True
            if line.cut:
                self._data.add_cut(value, line.tail)
            else:
                self._data.add(value)

    def _dispatch(self) -> Iterator[AnswerPart]:
        if self._has_data:
            yield self._data.build_part(self._name)
        self._data.clear()
        self._has_data = False
        self._name = ""


class JsonObjectParser:
    """JSON: every object at the top, or directly in a list at the top."""

    def __init__(self, largest: int = MAX_PART_BYTES) -> None:
        self._held = _PartBuffer(largest)
        self._depth = 0
        self._begun_at = -1  # the depth in which the object began that is being held
        self._in_text = False
        self._escaped = False
        self._in_list = False

    def feed(self, data: bytes) -> Iterator[AnswerPart]:
        at, kept_from = 0, 0
        if self._escaped and data:
            self._escaped, at = False, 1
        if self._in_text:
            at = self._skip_text(data, at)
        while not self._in_text and (found := _OUTSIDE.search(data, at)):
            at = found.end()
            mark = found[0]
            if mark == b'"':
                self._in_text = True
                at = self._skip_text(data, at)
            elif mark in b"{[":
                if self._starts_object(mark):
                    kept_from = found.start()
                self._depth += 1
            else:
                self._depth = max(0, self._depth - 1)
                if self._depth == self._begun_at:
                    self._held.add(data[kept_from:at])
                    yield self._held.build_part("")
                    self._held.clear()
                    self._begun_at = -1
        if self._begun_at >= 0:
            self._held.add(data[kept_from:])

    def _skip_text(self, data: bytes, at: int) -> int:
        """Skip to after the closing quote, or to the end of the data."""
        passed = _TEXT.match(data, at)
        assert passed is not None, "it fits nothing, too"
        at = passed.end()
        if at < len(data):
            self._in_text = data[at : at + 1] != b'"'
            self._escaped = self._in_text  # a backslash at the very end
            at += 1
        return at

    def finish(self) -> Iterator[AnswerPart]:
        """Yield nothing: an incomplete object is not a part."""
        return iter(())

    def _starts_object(self, mark: bytes) -> bool:
        if self._depth == 0:
            self._in_list = mark == b"["
        if mark != b"{" or self._begun_at >= 0 or self._depth != int(self._in_list):
            return False
        self._begun_at = self._depth
        return True


class AnswerParser:
    """Chooses the parser by the first byte: a server does not always answer in the requested format."""

    def __init__(self, largest: int = MAX_PART_BYTES) -> None:
        self._largest = largest
        self._reader: EventParser | JsonObjectParser | None = None

    def feed(self, data: bytes) -> Iterator[AnswerPart]:
        if self._reader is None:
            data = data.lstrip(_LEADING_BYTES)
            if not data:
                return
            self._reader = (JsonObjectParser if data[:1] in b"{[" else EventParser)(self._largest)
        yield from self._reader.feed(data)

    @property
    def is_json(self) -> bool:
        """It is JSON, not a stream of events."""
        return isinstance(self._reader, JsonObjectParser)

    def finish(self) -> Iterator[AnswerPart]:
        if self._reader is not None:
            yield from self._reader.finish()


def parse_json(data: str | bytes) -> Json:
    """Parse JSON; None if it is invalid."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
