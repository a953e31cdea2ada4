"""What a cassette stores of an exchange with a model, and where a request is in its conversation.

An answer is stored with the deltas of each block joined, and with placeholders for what differs between runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

from blueflame.billing.sse import AnswerParser, Json, parse_json
from blueflame.gateway.cassette.merge import merge_pieces
from blueflame.lazy_dataclass import dataclass

TextChange: TypeAlias = Callable[[str], str]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_VOLATILE = re.compile(
    r"\b[0-9a-f]{40}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d)?"
)
MODEL_ITEM_TYPES = frozenset({"function_call", "custom_tool_call", "local_shell_call", "reasoning", "web_search_call"})


class Placeholders:
    """Placeholders for texts that differ between runs: `{{worktree}}` for /abs/path.

    A placeholder that the text itself contains is escaped with a mark and comes back unchanged.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        assert all(name[:2] == "{{" and name[-2:] == "}}" for name in places), f"not placeholders: {sorted(places)}"
        texts = {text: name for name, text in places.items() if text}
        self._texts = texts
        self._values = dict(places)
        inner = "|".join(re.escape(name[2:-2]) for name in sorted(self._values))
        marked = rf"\{{\{{(?P<marks>!*)(?P<name>{inner})\}}\}}"
        longest_first = "|".join(re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text)))
        self._to_keep = re.compile(f"(?P<text>{longest_first})|{marked}") if texts else None
        self._to_give = re.compile(marked) if texts else None

    def insert(self, value: Json) -> Json:
        """Replace texts by placeholders, for the cassette."""
        return value if self._to_keep is None else _replace_everywhere(value, self._insert_in_text)

    def resolve(self, value: Json) -> Json:
        """Replace placeholders by the texts of this run."""
        return value if self._to_give is None else _replace_everywhere(value, self._resolve_in_text)

    def _insert_in_text(self, text: str) -> str:
        assert self._to_keep is not None
        return self._to_keep.sub(
            lambda found: self._texts[found["text"]] if found["text"] is not None else _shift_marks(found, "!"), text
        )

    def _resolve_in_text(self, text: str) -> str:
        assert self._to_give is not None
        return self._to_give.sub(
            lambda found: _shift_marks(found, "") if found["marks"] else self._values[found[0]],
            text,
        )


def _shift_marks(found: re.Match[str], more: str) -> str:
    """Add a mark when inserting placeholders, remove one when resolving them."""
    marks = found["marks"] + more if more else found["marks"][1:]
    return f"{{{{{marks}{found['name']}}}}}"


def _replace_everywhere(value: Json, change: TextChange) -> Json:
    """Change every text; in texts that are JSON (the input of a tool) change the values."""
    if isinstance(value, str):
        return _replace_in_text(value, change)
    if isinstance(value, list):
        return [_replace_everywhere(each, change) for each in value]
    if isinstance(value, dict):
        return {change(name): _replace_everywhere(each, change) for name, each in value.items()}
    return value


def _replace_in_text(text: str, change: TextChange) -> str:
    if text[:1] in ("{", "["):
        inside = parse_json(text)
        if isinstance(inside, dict | list):
            changed = _replace_everywhere(inside, change)
            return text if changed == inside else json.dumps(changed)
    return change(text)


@dataclass(frozen=True, slots=True)
class RequestPosition:
    """Which conversation a request belongs to, and at which turn it is."""

    thread: str
    turn: int
    model: str


def locate_request(api: str, body: bytes, places: Placeholders) -> RequestPosition | None:
    """Locate a request in its conversation; None if the body is not a request."""
    request = parse_json(body)
    if not isinstance(request, dict):
        return None
    model = str(request.get("model", ""))
    mine = [_is_by_model(item) for item in _list_messages(api, request)]
    turn = sum(1 for before, now in zip([False, *mine], mine, strict=False) if now and not before)
    first = next(
        (
            item
            for item, by_model in zip(_list_messages(api, request), mine, strict=True)
            if _is_from_user(item, by_model)
        ),
        {},
    )
    words = _REMINDER.sub("", "\n".join(_list_texts(first)))
    words = _VOLATILE.sub("{{…}}", str(places.insert(words))).strip()
    return RequestPosition(sha256(f"{model}\n{words}".encode(errors="replace")).hexdigest()[:16], turn, model)


def _list_messages(api: str, request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    name = {"anthropic": "messages", "openai-chat": "messages", "openai-responses": "input", "gemini": "contents"}[api]
    found = request.get(name)
    if isinstance(found, str):
        return [{"role": "user", "content": found}]
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _is_by_model(item: Mapping[str, Any]) -> bool:
    return item.get("role") in ("assistant", "model") or item.get("type") in MODEL_ITEM_TYPES


def _is_from_user(item: Mapping[str, Any], by_model: bool) -> bool:
    return not by_model and item.get("role", "user") == "user"


def _list_texts(item: Mapping[str, Any]) -> Iterable[str]:
    for holder in (item.get("content"), item.get("parts")):
        if isinstance(holder, str):
            yield holder
        elif isinstance(holder, list):
            yield from (str(part["text"]) for part in holder if isinstance(part, dict) and "text" in part)


def parse_streamed_answer(api: str, response: bytes) -> list[Json] | None:
    """Parse a streamed answer into [name, data] pairs with joined deltas; None if it is incomplete."""
    parts = AnswerParser()
    pairs = [
        [part.name, _parse_event_data(part.data)] for part in (*parts.feed(response), *parts.finish()) if not part.cut
    ]
    if parts.is_json or not any(_is_final_event(api, name, data) for name, data in pairs):
        return None
    return merge_pieces(api, pairs)


def _parse_event_data(data: bytes) -> Json:
    value = parse_json(data)
    return data.decode(errors="replace") if value is None else value


def _is_final_event(api: str, name: str, data: Json) -> bool:
    if data == "[DONE]":
        return True
    if not isinstance(data, dict):
        return False
    kind = data.get("type", name)
    ends = {"anthropic": ("message_stop",), "openai-responses": ("response.completed", "response.incomplete")}
    if api in ends:
        return kind in ends[api]
    choices = data.get("choices" if api == "openai-chat" else "candidates")
    reason = "finish_reason" if api == "openai-chat" else "finishReason"
    return isinstance(choices, list) and any(isinstance(each, dict) and each.get(reason) for each in choices)


ANSWER_LISTS = {"anthropic": "content", "openai-responses": "output", "openai-chat": "choices", "gemini": "candidates"}


def parse_whole_answer(api: str, response: bytes) -> Json | None:
    """Parse an answer that was not streamed (or Gemini's list of chunks); None if it is not one."""
    value = parse_json(response)
    last = value[-1] if isinstance(value, list) and value else value
    if not isinstance(last, dict) or not isinstance(last.get(ANSWER_LISTS[api]), list):
        return None
    if isinstance(value, list):
        return [data for _name, data in merge_pieces(api, [["", chunk] for chunk in value])]
    return value


def format_chunks(kept: Json, *, streamed: bool) -> tuple[bytes, ...]:
    """Format for the wire: each event a chunk, or the whole body."""
    if not streamed:
        return (json.dumps(kept).encode(),)
    return tuple(_format_event(name, data) for name, data in kept)


def _format_event(name: str, data: Json) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return (f"event: {name}\n{lines}\n" if name else f"{lines}\n").encode(errors="replace")
