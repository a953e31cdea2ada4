from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.billing.usage import APIS, Usage, UsageReader


def sse(*events: dict[str, Any] | str, end: str = "\n") -> bytes:
    lines: list[str] = []
    for event in events:
        if isinstance(event, str):
            lines += [f"data: {event}", ""]
        else:
            lines += [f"event: {event.get('type', 'message')}", f"data: {json.dumps(event)}", ""]
    return (end.join(lines) + end).encode()


def used(api: str, *chunks: bytes, largest: int | None = None) -> Usage:
    reader = UsageReader(api, **({"largest": largest} if largest else {}))
    for chunk in chunks:
        reader.feed(chunk)
    return reader.usage


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "claude-opus-5-5",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 1,
            "cache_creation_input_tokens": 700,
            "cache_read_input_tokens": 300,
            "cache_creation": {"ephemeral_1h_input_tokens": 200, "ephemeral_5m_input_tokens": 500},
        },
    },
}
TEXT = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": 'é "usage": {"input_tokens": 9} \\'},
}
DELTA = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 120, "server_tool_use": {"web_search_requests": 2}},
}
STOP = {"type": "message_stop"}
ANTHROPIC = sse(START, {"type": "ping"}, TEXT, DELTA, STOP)
ANTHROPIC_USED = Usage(
    model="claude-opus-5-5",
    input=10,
    output=120,
    cache_read=300,
    cache_write=700,
    cache_write_1h=200,
    web_search=2,
    complete=True,
)

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-5.5",
    "output": [{"type": "web_search_call"}, {"type": "message", "content": [{"type": "output_text", "text": "hm"}]}],
    "usage": {
        "input_tokens": 1500,
        "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 100},
        "output_tokens": 70,
        "output_tokens_details": {"reasoning_tokens": 30},
    },
}
RESPONSES = sse(
    {"type": "response.created", "response": {"model": "gpt-5.5", "usage": None}},
    {"type": "response.output_text.delta", "delta": "hm"},
    {"type": "response.completed", "response": RESPONSE},
)
RESPONSES_USED = Usage(
    model="gpt-5.5", input=400, output=70, cache_read=1000, cache_write=100, web_search=1, complete=True
)

CHAT_TOKENS = {"prompt_tokens": 900, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 600}}
CHAT = sse(
    {"object": "chat.completion.chunk", "model": "m1", "choices": [{"delta": {"content": "hi"}}], "usage": None},
    {"object": "chat.completion.chunk", "model": "m1", "choices": [], "usage": CHAT_TOKENS},
    "[DONE]",
)
CHAT_USED = Usage(model="m1", input=300, output=40, cache_read=600, complete=True)

GEMINI_CHUNKS = [
    {"candidates": [{"content": {"parts": [{"text": "a } ] \\ b"}]}}], "usageMetadata": {"promptTokenCount": 50}},
    {
        "candidates": [{"finishReason": "STOP"}],
        "modelVersion": "gemini-3.1-pro-preview",
        "usageMetadata": {
            "promptTokenCount": 50,
            "cachedContentTokenCount": 20,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 11,
            "toolUsePromptTokenCount": 5,
        },
    },
]
GEMINI = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in GEMINI_CHUNKS).encode()
GEMINI_LIST = json.dumps(GEMINI_CHUNKS, indent=2).encode()
GEMINI_USED = Usage(model="gemini-3.1-pro-preview", input=35, output=18, cache_read=20, complete=True)

MESSAGE = START["message"] | {"type": "message", "usage": START["message"]["usage"] | DELTA["usage"]}  # type: ignore[index, operator]

ANSWERS: dict[str, tuple[str, bytes, Usage]] = {
    "anthropic": ("anthropic", ANTHROPIC, ANTHROPIC_USED),
    "anthropic-crlf": ("anthropic", ANTHROPIC.replace(b"\n", b"\r\n"), ANTHROPIC_USED),
    "anthropic-cr": ("anthropic", ANTHROPIC.replace(b"\n", b"\r"), ANTHROPIC_USED),
    "anthropic-whole": ("anthropic", json.dumps(MESSAGE).encode(), ANTHROPIC_USED),
    "responses": ("openai-responses", RESPONSES, RESPONSES_USED),
    "responses-whole": ("openai-responses", json.dumps(RESPONSE, indent=1).encode(), RESPONSES_USED),
    "chat": ("openai-chat", CHAT, CHAT_USED),
    "chat-whole": ("openai-chat", json.dumps({"model": "m1", "usage": CHAT_TOKENS}).encode(), CHAT_USED),
    "gemini": ("gemini", GEMINI, GEMINI_USED),
    "gemini-list": ("gemini", GEMINI_LIST, GEMINI_USED),
    "gemini-whole": ("gemini", json.dumps(GEMINI_CHUNKS[-1]).encode(), GEMINI_USED),
}
EACH = pytest.mark.parametrize(("api", "answer", "expected"), ANSWERS.values(), ids=ANSWERS)


@EACH
def test_an_answer_reports_its_usage(api: str, answer: bytes, expected: Usage) -> None:
    assert used(api, answer) == expected


@EACH
def test_byte_by_byte_gives_the_same_usage(api: str, answer: bytes, expected: Usage) -> None:
    assert used(api, *(bytes([byte]) for byte in answer)) == expected


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_chunking_gives_the_same_usage(name: str, places: list[int]) -> None:
    api, data, expected = ANSWERS[name]
    assert used(api, *cut(data, places)) == expected


@given(st.sampled_from(APIS), st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_random_bytes_never_raise_and_are_read_alike_in_any_chunking(api: str, data: bytes, places: list[int]) -> None:
    assert used(api, *cut(data, places)) == used(api, data)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["usage", "type", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(APIS), st.lists(JUNK, max_size=4), st.booleans())
def test_unexpected_json_never_raises(api: str, events: list[Any], listed: bool) -> None:
    wrapped = [{"type": "message_delta", "usage": event, "usageMetadata": event, "response": event} for event in events]
    data = json.dumps(wrapped).encode() if listed else sse(*wrapped)
    assert used(api, data).input >= 0


@given(st.lists(st.integers(0, 60_000), max_size=6))
def test_an_event_that_is_too_large_still_reports_its_usage(places: list[int]) -> None:
    text = {"type": "message", "content": [{"type": "output_text", "text": 'x "usage": {} ' * 2_000}]}
    large = RESPONSE | {"output": [text]}
    del large["usage"]
    large["usage"] = RESPONSE["usage"]
    data = sse({"type": "response.completed", "response": large}, {"type": "done"})
    assert len(data) > 20_000
    expected = Usage(model="gpt-5.5", input=400, output=70, cache_read=1000, cache_write=100, complete=True)
    assert used("openai-responses", *cut(data, places), largest=4096) == expected


def test_memory_stays_bounded() -> None:
    reader = UsageReader("anthropic")
    reader.feed(sse(START) + b'data: {"x": "')
    for _ in range(400):
        reader.feed(b"y" * 100_000)
    reader.feed(b'"}\n\n' + sse(DELTA, STOP))
    assert reader.usage == ANTHROPIC_USED


def test_an_answer_that_is_cut_off_is_not_complete_but_counts() -> None:
    assert used("anthropic", sse(START, TEXT)) == Usage(
        model="claude-opus-5-5", input=10, output=1, cache_read=300, cache_write=700, cache_write_1h=200
    )


def test_input_figures_may_arrive_late() -> None:
    late = DELTA | {"usage": {"input_tokens": 44, "cache_read_input_tokens": 0, "output_tokens": 5}}
    usage = used("anthropic", sse(START, late, STOP))
    assert (usage.input, usage.cache_read, usage.output) == (44, 300, 5)


def test_tokens_of_a_compaction_are_counted_besides_the_totals() -> None:
    steps = [
        {"type": "compaction", "input_tokens": 1000, "output_tokens": 30},
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
    ]
    delta = DELTA | {"usage": {"input_tokens": 10, "output_tokens": 5, "iterations": steps}}
    usage = used("anthropic", sse(START, delta, STOP))
    assert (usage.input, usage.output) == (1010, 35)


def test_comments_and_data_in_several_lines_are_understood() -> None:
    pretty = "".join(f"data:{line}\n" for line in json.dumps(START, indent=1).split("\n"))
    usage = used("anthropic", f": hello\n\nevent: message_start\n{pretty}\n".encode(), sse(DELTA, STOP))
    assert usage == ANTHROPIC_USED


def test_a_last_event_without_its_empty_line_counts_at_the_end() -> None:
    reader = UsageReader("openai-chat")
    reader.feed(CHAT.rstrip())
    assert not reader.usage.complete
    reader.finish()
    assert reader.usage == CHAT_USED


def test_a_response_that_failed_without_usage_is_complete_and_used_nothing() -> None:
    failed = {"type": "response.failed", "response": {"model": "gpt-5.5", "usage": None}}
    assert used("openai-responses", sse(failed)) == Usage(model="gpt-5.5", complete=True)


def test_an_error_in_place_of_an_answer_used_nothing() -> None:
    error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}).encode()
    assert used("anthropic", error) == Usage()


def test_usage_without_a_figure_for_input_or_output_is_no_usage() -> None:
    """A provider that reports null is not free. Only a delta may leave input out: it does not repeat it."""
    bare = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": None, "output_tokens": None}}}
    ending = {"type": "message_delta", "usage": {"input_tokens": None, "output_tokens": 120}}
    stop = {"type": "message_stop"}
    chat = {"model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": None}}
    answers = {
        "no input": ("anthropic", sse(bare, ending, stop), False),
        "input at the start": ("anthropic", sse(START, ending, stop), True),
        "no output": ("anthropic", json.dumps({"type": "message", "usage": {"input_tokens": 5}}).encode(), False),
        "null output": ("openai-chat", sse(chat, "[DONE]"), False),
    }
    found = {name: used(api, data) for name, (api, data, _) in answers.items()}
    assert {name: usage.complete for name, usage in found.items()} == {name: row[2] for name, row in answers.items()}
    assert all(usage.complete is not usage.invalid for usage in found.values())
