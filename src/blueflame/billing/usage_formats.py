"""Where each model API reports usage: one function per API, which takes an event or a whole answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from blueflame.lazy_dataclass import dataclass

MAX_COUNT = 1 << 53  # more is nonsense


@dataclass(slots=True)
class UsageCount:
    """The counts so far. `reported` when usage was reported, `ended` when the answer is complete, `invalid` when one of
    the figures cannot be a count, or those for input or output are missing: then the others cannot be trusted either.
    """

    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    web_search: int = 0
    reported: bool = False
    ended: bool = False
    invalid: bool = False
    given: frozenset[str] = frozenset()  # which of input and output have had a figure

    def note_given(self, usage: Mapping[str, Any], *names: str) -> None:
        self.given |= {name for name in names if usage.get(name) is not None}

    def require_given(self) -> None:
        self.invalid = self.invalid or (self.reported and len(self.given) < 2)

    def read(self, value: object) -> int:
        """Return a figure that the provider reports; 0 for one that is missing, or is no count."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
            self.invalid = True
            return 0
        return value


UsageTaker = Callable[[UsageCount, str, Mapping[str, Any]], None]


def add_anthropic_event(count: UsageCount, name: str, event: Mapping[str, Any]) -> None:
    kind = _to_text(event.get("type")) or name
    if kind == "message_start":
        message = _to_object(event.get("message"))
        count.model = _to_text(message.get("model")) or count.model
        _add_anthropic_usage(count, message)
    elif kind == "message_delta":
        _add_anthropic_usage(count, event)
    elif kind == "message_stop":
        count.ended = True
        count.require_given()
    elif kind in ("message", ""):
        count.model = _to_text(event.get("model")) or count.model
        _add_anthropic_usage(count, event)
        count.require_given()


def _add_anthropic_usage(count: UsageCount, holder: Mapping[str, Any]) -> None:
    """The newer figure counts, but a 0 for input means "not repeated": the CLI reads it so, too."""
    if not isinstance(usage := holder.get("usage"), Mapping):
        return
    count.reported = True
    count.note_given(usage, "input_tokens", "output_tokens")
    beside = _count_side_calls(usage)
    count.invalid = count.invalid or beside.invalid
    count.input = count.read(usage.get("input_tokens")) + beside.input or count.input
    count.cache_read = count.read(usage.get("cache_read_input_tokens")) + beside.cache_read or count.cache_read
    if usage.get("output_tokens") is not None:
        count.output = count.read(usage.get("output_tokens")) + beside.output
    created = _to_object(usage.get("cache_creation"))
    hour, minutes = (count.read(created.get(f"ephemeral_{age}_input_tokens")) for age in ("1h", "5m"))
    written = max(count.read(usage.get("cache_creation_input_tokens")), hour + minutes)
    if written or beside.cache_write:
        count.cache_write, count.cache_write_1h = written + beside.cache_write, hour
    searches = _to_object(usage.get("server_tool_use")).get("web_search_requests")
    count.web_search = count.read(searches) or count.web_search


def _count_side_calls(usage: Mapping[str, Any]) -> UsageCount:
    """Count what the API did besides the answer (compaction, advisor messages): its totals exclude that."""
    total = UsageCount()
    for step in _to_list(usage.get("iterations")):
        if isinstance(step, Mapping) and step.get("type") in ("compaction", "advisor_message"):
            total.input += total.read(step.get("input_tokens"))
            total.output += total.read(step.get("output_tokens"))
            total.cache_read += total.read(step.get("cache_read_input_tokens"))
            total.cache_write += total.read(step.get("cache_creation_input_tokens"))
    return total


FINAL_RESPONSE_EVENTS = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)


def add_responses_event(count: UsageCount, name: str, event: Mapping[str, Any]) -> None:
    kind = _to_text(event.get("type")) or name
    response = _to_object(event.get("response")) or event  # not streamed, it is the whole answer
    count.model = _to_text(response.get("model")) or count.model
    if isinstance(usage := response.get("usage"), Mapping):
        _add_openai_usage(count, usage, "input_tokens", "output_tokens", "input_tokens_details")
        searches = sum(
            1 for item in _to_list(response.get("output")) if _to_object(item).get("type") == "web_search_call"
        )
        count.web_search = searches or count.web_search
    if kind in FINAL_RESPONSE_EVENTS:
        count.ended = count.reported = True


def add_chat_event(count: UsageCount, _name: str, event: Mapping[str, Any]) -> None:
    count.model = _to_text(event.get("model")) or count.model
    if isinstance(usage := event.get("usage"), Mapping):
        _add_openai_usage(count, usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details")


def _add_openai_usage(count: UsageCount, usage: Mapping[str, Any], read: str, written: str, details: str) -> None:
    """Add the usage. OpenAI includes cached tokens in the input."""
    count.reported = True
    count.note_given(usage, read, written)
    count.require_given()
    inside = _to_object(usage.get(details))
    total = count.read(usage.get(read))
    count.cache_read = min(count.read(inside.get("cached_tokens")), total)
    count.cache_write = min(count.read(inside.get("cache_write_tokens")), total - count.cache_read)
    count.input = total - count.cache_read - count.cache_write
    count.output = count.read(usage.get(written))


def add_gemini_event(count: UsageCount, _name: str, event: Mapping[str, Any]) -> None:
    event = _to_object(event.get("response")) or event  # one service wraps each answer once more
    count.model = _to_text(event.get("modelVersion")) or count.model
    if isinstance(usage := event.get("usageMetadata"), Mapping):
        count.reported = True
        total = count.read(usage.get("promptTokenCount"))
        count.cache_read = min(count.read(usage.get("cachedContentTokenCount")), total)
        count.input = total - count.cache_read + count.read(usage.get("toolUsePromptTokenCount"))
        count.output = count.read(usage.get("candidatesTokenCount")) + count.read(usage.get("thoughtsTokenCount"))
    for candidate in map(_to_object, _to_list(event.get("candidates"))):
        searches = len(_to_list(_to_object(candidate.get("groundingMetadata")).get("webSearchQueries")))
        count.web_search = max(count.web_search, searches)
        count.ended = count.ended or bool(candidate.get("finishReason"))
    count.ended = count.ended or bool(_to_object(event.get("promptFeedback")).get("blockReason"))


EVENT_READERS: Mapping[str, UsageTaker] = {
    "anthropic": add_anthropic_event,
    "openai-responses": add_responses_event,
    "openai-chat": add_chat_event,
    "gemini": add_gemini_event,
}


def _to_text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _to_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _to_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
