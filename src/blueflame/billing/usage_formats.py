"""Where each model API says what a call has used: one function for each, that takes an event or a whole answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MOST = 1 << 53  # more than that is no count but nonsense


@dataclass(slots=True)
class Count:
    """What has been seen so far. `told` when a usage was among it, `ended` when the answer came to its end."""

    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    web_search: int = 0
    told: bool = False
    ended: bool = False


Take = Callable[[Count, str, Mapping[str, Any]], None]


def take_anthropic(count: Count, name: str, event: Mapping[str, Any]) -> None:
    kind = _text(event.get("type")) or name
    if kind == "message_start":
        message = _object(event.get("message"))
        count.model = _text(message.get("model")) or count.model
        _anthropic_usage(count, message)
    elif kind == "message_delta":
        _anthropic_usage(count, event)
    elif kind == "message_stop":
        count.ended = True
    elif kind in ("message", ""):
        count.model = _text(event.get("model")) or count.model
        _anthropic_usage(count, event)


def _anthropic_usage(count: Count, holder: Mapping[str, Any]) -> None:
    """The newer figure counts, but a 0 for what is read is "not said again": so the CLI reads it, too."""
    if not isinstance(usage := holder.get("usage"), Mapping):
        return
    count.told = True
    beside = _beside(usage)
    count.input = _number(usage.get("input_tokens")) + beside.input or count.input
    count.cache_read = _number(usage.get("cache_read_input_tokens")) + beside.cache_read or count.cache_read
    if usage.get("output_tokens") is not None:
        count.output = _number(usage.get("output_tokens")) + beside.output
    created = _object(usage.get("cache_creation"))
    hour, minutes = (_number(created.get(f"ephemeral_{age}_input_tokens")) for age in ("1h", "5m"))
    written = max(_number(usage.get("cache_creation_input_tokens")), hour + minutes)
    if written or beside.cache_write:
        count.cache_write, count.cache_write_1h = written + beside.cache_write, hour
    searches = _object(usage.get("server_tool_use")).get("web_search_requests")
    count.web_search = _number(searches) or count.web_search


def _beside(usage: Mapping[str, Any]) -> Count:
    """What the API did besides the answer (compacting the conversation, asking an adviser): not in its totals."""
    total = Count()
    for step in _list(usage.get("iterations")):
        if isinstance(step, Mapping) and step.get("type") in ("compaction", "advisor_message"):
            total.input += _number(step.get("input_tokens"))
            total.output += _number(step.get("output_tokens"))
            total.cache_read += _number(step.get("cache_read_input_tokens"))
            total.cache_write += _number(step.get("cache_creation_input_tokens"))
    return total


ENDS_OF_RESPONSES = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


def take_responses(count: Count, name: str, event: Mapping[str, Any]) -> None:
    kind = _text(event.get("type")) or name
    response = _object(event.get("response")) or event  # not streamed, it is the whole answer
    count.model = _text(response.get("model")) or count.model
    if isinstance(usage := response.get("usage"), Mapping):
        _openai_usage(count, usage, "input_tokens", "output_tokens", "input_tokens_details")
        searches = sum(1 for item in _list(response.get("output")) if _object(item).get("type") == "web_search_call")
        count.web_search = searches or count.web_search
    if kind in ENDS_OF_RESPONSES:
        count.ended = count.told = True


def take_chat(count: Count, _name: str, event: Mapping[str, Any]) -> None:
    count.model = _text(event.get("model")) or count.model
    if isinstance(usage := event.get("usage"), Mapping):
        _openai_usage(count, usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details")


def _openai_usage(count: Count, usage: Mapping[str, Any], read: str, written: str, details: str) -> None:
    """OpenAI counts cached tokens among those that were read."""
    count.told = True
    inside = _object(usage.get(details))
    total = _number(usage.get(read))
    count.cache_read = min(_number(inside.get("cached_tokens")), total)
    count.cache_write = min(_number(inside.get("cache_write_tokens")), total - count.cache_read)
    count.input = total - count.cache_read - count.cache_write
    count.output = _number(usage.get(written))


def take_gemini(count: Count, _name: str, event: Mapping[str, Any]) -> None:
    event = _object(event.get("response")) or event  # one service wraps each answer once more
    count.model = _text(event.get("modelVersion")) or count.model
    if isinstance(usage := event.get("usageMetadata"), Mapping):
        count.told = True
        total = _number(usage.get("promptTokenCount"))
        count.cache_read = min(_number(usage.get("cachedContentTokenCount")), total)
        count.input = total - count.cache_read + _number(usage.get("toolUsePromptTokenCount"))
        count.output = _number(usage.get("candidatesTokenCount")) + _number(usage.get("thoughtsTokenCount"))
    for candidate in map(_object, _list(event.get("candidates"))):
        searches = len(_list(_object(candidate.get("groundingMetadata")).get("webSearchQueries")))
        count.web_search = max(count.web_search, searches)
        count.ended = count.ended or bool(candidate.get("finishReason"))
    count.ended = count.ended or bool(_object(event.get("promptFeedback")).get("blockReason"))


TAKE: Mapping[str, Take] = {
    "anthropic": take_anthropic,
    "openai-responses": take_responses,
    "openai-chat": take_chat,
    "gemini": take_gemini,
}


def _number(value: object) -> int:
    """A count that makes sense, or 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MOST)


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
