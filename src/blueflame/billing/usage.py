"""Read what a model call used out of its answer, while it streams."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from blueflame.billing.sse import MAX_PART_BYTES, AnswerParser, AnswerPart, parse_json
from blueflame.billing.usage_formats import EVENT_READERS, UsageCount
from blueflame.lazy_dataclass import dataclass

APIS = tuple(EVENT_READERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call. `input` excludes cached ones, `output` includes thinking, `cache_write` those for an hour.

    `complete` when the answer ended and reported its usage; otherwise these are the figures so far. `invalid` when one
    of them is no count.
    """

    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    web_search: int = 0
    complete: bool = False
    invalid: bool = False


USAGE_MARKS: Mapping[str, tuple[bytes, ...]] = {
    "anthropic": (b'"usage"', b"message_stop"),
    "openai-responses": (b'"usage"', b"response.completed", b"response.incomplete", b"response.failed"),
    "openai-chat": (b'"usage"',),
    "gemini": (b"usageMetadata", b"finishReason", b"blockReason", b"groundingMetadata"),
}
"""An event with none of these does not report usage and is not parsed: most are a few words of text."""

EVENT_BYTES: Mapping[str, int] = {"anthropic": 110, "openai-responses": 200, "openai-chat": 150, "gemini": 200}
"""Bytes of an event besides its words, at the least."""
FEWEST_BYTES_PER_TOKEN = 2  # of text that is hard to encode

_DONE = b"[DONE]"
_KIND = re.compile(rb'"type"\s*:\s*"([a-z_.]{1,60})"')
_MODEL = re.compile(rb'(?<!\\)"(?:model|modelVersion)"\s*:\s*"([^"\\]{1,200})"')
_USAGE = re.compile(rb'(?<!\\)"(usage|usageMetadata)"\s*:\s*(?=\{)')


class UsageReader:
    """Takes the answer's body in any pieces; `usage` can be read at any time."""

    def __init__(self, api: str, *, largest: int = MAX_PART_BYTES) -> None:
        self._api = api
        self._take = EVENT_READERS[api]
        self._marks = USAGE_MARKS[api]
        self._parts = AnswerParser(largest)
        self._count = UsageCount()
        self._received = 0  # bytes
        self._events = 0
        self.readable = True  # False when what arrives cannot be decompressed

    def feed(self, data: bytes) -> None:
        self._received += len(data)
        for part in self._parts.feed(data):
            self._read(part)

    def finish(self) -> None:
        """End the answer. Needed only for servers that omit the empty line after their last event."""
        for part in self._parts.finish():
            self._read(part)

    @property
    def usage(self) -> Usage:
        count = self._count
        return Usage(
            model=count.model,
            input=count.input,
            output=count.output,
            cache_read=count.cache_read,
            cache_write=count.cache_write,
            cache_write_1h=min(count.cache_write_1h, count.cache_write),
            web_search=count.web_search,
            complete=count.ended and count.reported and not count.invalid,
            invalid=count.invalid,
        )

    def estimate_received(self) -> int:
        """Estimate the tokens of the words that have arrived, rather too many."""
        words = self._received - self._events * EVENT_BYTES[self._api]
        return max(self._events, words // FEWEST_BYTES_PER_TOKEN)

    def _read(self, part: AnswerPart) -> None:
        self._events += 1
        if part.cut:
            self._take(self._count, part.name, _read_cut_part(part))
        elif part.data.strip() == _DONE:
            self._count.ended = self._count.ended or self._api == "openai-chat"
        elif part.name == "message_stop" or any(mark in part.data for mark in self._marks):
            event = parse_json(part.data)
            self._take(self._count, part.name, event if isinstance(event, Mapping) else {})
        if self._parts.is_json and self._api != "gemini":  # Gemini streams a list of objects, too
            self._count.ended = self._count.reported


def _read_cut_part(part: AnswerPart) -> Mapping[str, Any]:
    """Read an event that was too large to keep: its kind and model are at one end, its usage at the other.

    In JSON a quote inside a text is escaped, so what looks like a key is one.
    """
    kind = _KIND.search(part.data)
    model = _MODEL.search(part.data) or _MODEL.search(part.tail)
    found: dict[str, Any] = {"model": model[1].decode(errors="replace")} if model else {}
    for usage in _USAGE.finditer(part.tail):
        found[usage[1].decode()] = _parse_object_at(part.tail, usage.end())
    if kind and kind[1].startswith(b"response."):
        found = {"response": found}
    return found | {"type": kind[1].decode() if kind else part.name}


def _parse_object_at(data: bytes, at: int) -> Mapping[str, Any]:
    try:
        value, _ = json.JSONDecoder().raw_decode(data[at:].decode(errors="replace"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
