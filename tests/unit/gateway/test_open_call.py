"""What a call is charged whose answer has no usable figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blueflame.billing.usage import Usage, UsageReader
from blueflame.gateway.model_api.asked import AskedCall
from blueflame.gateway.model_api.budget import OpenCall

SIZE, LIMIT = 100_000, 32_000
COMPACT = (",", ":")
START: dict[str, Any] = {"input_tokens": 20, "cache_read_input_tokens": 15_000, "output_tokens": 1}


def stream(*usages: dict[str, Any], words: str = "", ends: bool = True) -> bytes:
    first, *later = usages
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"model": "claude-opus-5-5", "usage": first}}]
    for word in words.split():
        events.append({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"{word} "}})
    events += [{"type": "message_delta", "usage": usage} for usage in later]
    events += [{"type": "message_stop"}] * ends
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event, separators=COMPACT)}\n\n" for event in events
    ).encode()


def call(answer: bytes | None, *, size: int = SIZE, limit: int = LIMIT) -> OpenCall:
    reader = None if answer is None else UsageReader("anthropic")
    if reader is not None and answer is not None:
        reader.feed(answer)
    return OpenCall(AskedCall("claude-opus-5-5", max_output=limit), size, reader)


def test_figures_that_a_call_can_have_are_taken_as_they_are() -> None:
    used = call(stream(START, {"output_tokens": LIMIT})).read_usage()
    assert used == Usage(model="claude-opus-5-5", input=20, output=LIMIT, cache_read=15_000, complete=True)
    searched = stream({"input_tokens": 300_000}, {"output_tokens": 9, "server_tool_use": {"web_search_requests": 30}})
    assert call(searched, size=2000).read_usage().complete, "a small request may name much that is read"
    assert call(stream({"input_tokens": 12.0, "output_tokens": None}, {"output_tokens": 0})).read_usage().complete


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"input_tokens": 10**14}, {"output_tokens": 5}),
        ({"input_tokens": 20}, {"output_tokens": 10**14}),
        ({"input_tokens": 20}, {"output_tokens": LIMIT * 2 + 2000}),
        ({"input_tokens": 2_000_001}, {"output_tokens": 5}),
        ({"input_tokens": "many"}, {"output_tokens": "a few"}),
        ({"input_tokens": -20}, {"output_tokens": 5}),
        ({"input_tokens": 20}, {"output_tokens": -5}),
        ({"input_tokens": 20, "cache_read_input_tokens": {"a": 1}}, {"output_tokens": 5}),
        ({"input_tokens": 2.5}, {"output_tokens": 5}),
        ({"input_tokens": True}, {"output_tokens": 5}),
        ({"input_tokens": 20}, {"output_tokens": 5, "server_tool_use": {"web_search_requests": 10**9}}),
        ({"input_tokens": 20}, {"output_tokens": 5, "iterations": [{"type": "compaction", "output_tokens": "x"}]}),
    ],
)
def test_figures_that_no_call_can_have_are_none(first: dict[str, Any], last: dict[str, Any]) -> None:
    broken = call(stream(first, last, words="one two three"))
    assert broken.read_usage() == Usage(model="claude-opus-5-5", invalid=True)
    charged = broken.estimate_broken(0.0)
    assert (charged.input, charged.cache_read, charged.web_search) == (SIZE // 2, 0, 0)
    assert 3 <= charged.output < 500


def test_an_answer_that_the_provider_ends_is_charged_by_what_arrived() -> None:
    words = "word " * 1000
    charged = call(stream(START, words=words, ends=False)).estimate_broken(0.0)
    assert (charged.input, charged.cache_read, charged.complete) == (20, 15_000, False)
    assert 1000 <= charged.output <= 6000, "some tokens for each word, and not for what is around it"


def test_thinking_that_is_not_sent_is_charged_by_the_time_that_it_took() -> None:
    silent = call(stream(START, ends=False))
    assert silent.estimate_broken(40.0).output == 10_000
    assert silent.estimate_broken(4000.0).output == LIMIT


def test_figures_that_were_reported_before_the_end_count_if_they_are_higher() -> None:
    assert call(stream(START, {"output_tokens": 9000}, ends=False)).estimate_broken(1.0).output == 9000


def test_an_answer_of_which_nothing_can_be_read_is_charged_at_its_most() -> None:
    assert call(None).estimate_broken(0.0) == call(None).assume_worst()
    packed = call(b"\x1b\x03")
    assert packed.reader is not None
    packed.reader.readable = False
    assert packed.estimate_broken(0.0).output == LIMIT
