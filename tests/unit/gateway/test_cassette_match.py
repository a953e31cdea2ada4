from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.billing.sse import Json
from blueflame.billing.usage import UsageReader
from blueflame.gateway.cassette.match import (
    Placeholders,
    RequestPosition,
    format_chunks,
    locate_request,
    parse_streamed_answer,
    parse_whole_answer,
)

PLACES = {"{{worktree}}": "/home/ann/wt", "{{agent}}": "worker-1a2b3c4d", "{{home}}": "/home/ann"}
OTHER = {"{{worktree}}": "/srv/x", "{{agent}}": "worker-99999999", "{{home}}": '/odd "é\\'}

TEXT = st.text(max_size=6) | st.lists(
    st.sampled_from([*PLACES, *PLACES.values(), "{{!worktree}}", "{{!!agent}}", "{", "}", "!", "/x", '"', "[", "1"]),
    max_size=5,
).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def spelled_alike(value: Json) -> Json:
    """Texts that hold JSON, in one spelling."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            inside = json.loads(value)
        except ValueError:
            return value
        return ["json", spelled_alike(inside)] if isinstance(inside, dict | list) else value
    if isinstance(value, list):
        return [spelled_alike(each) for each in value]
    if isinstance(value, dict):
        return {name: spelled_alike(each) for name, each in value.items()}
    return value


@given(JSON)
def test_placeholders_round_trip(value: Json) -> None:
    places = Placeholders(PLACES)
    assert spelled_alike(places.resolve(places.insert(value))) == spelled_alike(value)


@given(JSON)
def test_a_recorded_answer_contains_no_path_of_its_run(value: Json) -> None:
    kept = json.dumps(Placeholders(PLACES).insert(value))
    assert not any(text in kept for text in PLACES.values())


def test_an_agent_gets_the_paths_of_its_run_also_in_the_input_of_a_tool() -> None:
    inside = json.dumps({"file_path": "/home/ann/wt/a.txt", "note": "/home/ann/b"})
    kept = Placeholders(PLACES).insert({"partial_json": inside, "text": "by worker-1a2b3c4d"})
    assert kept["text"] == "by {{agent}}"
    back = Placeholders(OTHER).resolve(kept)
    assert json.loads(back["partial_json"]) == {"file_path": "/srv/x/a.txt", "note": '/odd "é\\/b'}
    assert back["text"] == "by worker-99999999"


def test_without_placeholders_nothing_changes() -> None:
    assert Placeholders({}).resolve(Placeholders({}).insert(["{{worktree}}"])) == ["{{worktree}}"]


def sse(*events: dict[str, Any] | str) -> bytes:
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        lines.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(lines).encode()


def pieces(text: str, sizes: list[int]) -> list[str]:
    parts = []
    for size in sizes:
        parts.append(text[:size])
        text = text[size:]
    return [*parts, text]


INPUT = json.dumps({"file_path": "/home/ann/wt/a.txt", "content": "x\n"})


def anthropic(parts: list[str]) -> bytes:
    return sse(
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "name": "Write", "input": {}},
        },
        *(
            event
            for part in parts
            for event in (
                {"type": "ping"},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": part},
                },
            )
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )


def responses(parts: list[str]) -> bytes:
    item = {"type": "function_call", "name": "exec_command", "arguments": INPUT}
    kind = "response.function_call_arguments"
    usage = {"input_tokens": 5, "output_tokens": 9}
    return sse(
        *({"type": f"{kind}.delta", "item_id": "fc", "output_index": 0, "delta": part} for part in parts),
        {"type": f"{kind}.done", "item_id": "fc", "output_index": 0, "arguments": INPUT},
        {"type": "response.completed", "response": {"model": "m", "output": [item], "usage": usage}},
    )


def chat(parts: list[str]) -> bytes:
    def chunk(call: dict[str, Any]) -> dict[str, Any]:
        return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    return sse(
        chunk({"index": 0, "id": "c1", "function": {"name": "write", "arguments": ""}}),
        *(chunk({"index": 0, "function": {"arguments": part}}) for part in parts),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 9}},
        "[DONE]",
    )


def gemini_chunks(parts: list[str]) -> list[dict[str, Any]]:
    said = [
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": part}]}}],
            "usageMetadata": {"promptTokenCount": 5},
        }
        for part in parts
    ]
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 9}
    return [*said, {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": "m"}]


def gemini(parts: list[str]) -> bytes:
    return sse(*gemini_chunks(parts))


STREAMS = {"anthropic": anthropic, "openai-responses": responses, "openai-chat": chat, "gemini": gemini}


@given(st.sampled_from(sorted(STREAMS)), st.lists(st.integers(0, 20), max_size=8))
def test_a_path_streamed_in_pieces_is_recorded_as_a_placeholder(api: str, sizes: list[int]) -> None:
    answer = STREAMS[api](pieces(INPUT, sizes))
    kept = Placeholders(PLACES).insert(parse_streamed_answer(api, answer))
    assert "/home/ann" not in json.dumps(kept)
    played = b"".join(format_chunks(Placeholders(OTHER).resolve(kept), streamed=True))
    assert b"{{" not in played
    assert "/srv/x/a.txt" in played.decode()


@given(st.sampled_from(sorted(STREAMS)), st.lists(st.integers(0, 20), max_size=8))
def test_a_replayed_answer_reports_the_same_usage(api: str, sizes: list[int]) -> None:
    answer = STREAMS[api](pieces(INPUT, sizes))
    played = format_chunks(parse_streamed_answer(api, answer), streamed=True)
    before, after = UsageReader(api), UsageReader(api)
    before.feed(answer)
    for chunk in played:
        after.feed(chunk)
    assert after.usage == before.usage
    assert after.usage.complete


@pytest.mark.parametrize("api", sorted(STREAMS))
def test_an_incomplete_answer_is_not_recorded(api: str) -> None:
    answer = STREAMS[api](["{}"])
    assert parse_streamed_answer(api, answer[: len(answer) // 2]) is None
    assert parse_streamed_answer(api, b'{"type": "error"}') is None
    assert parse_whole_answer(api, b'{"type": "error"}') is None
    assert parse_whole_answer(api, b"oops") is None


def test_an_answer_that_was_not_streamed_is_recorded() -> None:
    message = {"type": "message", "content": [{"type": "text", "text": "in /home/ann/wt"}]}
    kept = Placeholders(PLACES).insert(parse_whole_answer("anthropic", json.dumps(message).encode()))
    assert (
        json.loads(format_chunks(Placeholders(OTHER).resolve(kept), streamed=False)[0])["content"][0]["text"]
        == "in /srv/x"
    )


def test_geminis_list_of_chunks_is_joined_like_a_stream() -> None:
    chunks = gemini_chunks(["in /home", "/ann/wt"])
    kept = parse_whole_answer("gemini", json.dumps(chunks).encode())
    assert kept is not None
    assert [len(kept), kept[0]["candidates"][0]["content"]["parts"]] == [2, [{"text": "in /home/ann/wt"}]]


def request(*messages: tuple[str, Any], model: str = "m", **more: object) -> bytes:
    content = [{"role": role, "content": words} for role, words in messages]
    return json.dumps({"model": model, "messages": content} | more).encode()


def place_of(body: bytes, api: str = "anthropic", places: dict[str, str] = PLACES) -> RequestPosition:
    found = locate_request(api, body, Placeholders(places))
    assert found is not None
    return found


def test_a_conversation_is_recognised_by_its_first_words_in_any_worktree() -> None:
    first = place_of(request(("system", "at noon"), ("user", "work in /home/ann/wt, please")))
    reminder = {"type": "text", "text": "<system-reminder>it is 2026-11-16</system-reminder>"}
    words = {"type": "text", "text": "work in /srv/x, please"}
    later = request(
        ("user", [reminder, words]), ("assistant", "hm"), ("user", "ok"), ("assistant", "so"), temperature=1
    )
    again = place_of(later, places=OTHER)
    assert (first.thread, first.turn) == (again.thread, 0)
    assert again.turn == 2


@pytest.mark.parametrize("other", [request(("user", "b")), request(("user", "a"), model="n")])
def test_other_words_or_another_model_are_another_conversation(other: bytes) -> None:
    assert place_of(request(("user", "a"))).thread != place_of(other).thread


def test_turns_are_counted_in_every_api() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning"},
        {"type": "function_call"},
        {"type": "function_call_output"},
        {"type": "function_call"},
        {"type": "function_call_output"},
    ]
    assert place_of(json.dumps({"model": "m", "input": items}).encode(), "openai-responses").turn == 2
    contents = [{"role": "user", "parts": [{"text": "go"}]}, {"role": "model", "parts": []}, {"parts": []}]
    assert place_of(json.dumps({"contents": contents}).encode(), "gemini").turn == 1
    assert place_of(request(("user", "go"), ("assistant", "a"), ("tool", "b")), "openai-chat").turn == 1
    assert place_of(json.dumps({"model": "m", "input": "go"}).encode(), "openai-responses").turn == 0


@given(st.sampled_from(sorted(STREAMS)), st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_nonsense_never_raises(api: str, data: bytes) -> None:
    locate_request(api, data, Placeholders(PLACES))
    parse_streamed_answer(api, data)
    parse_streamed_answer(api, b"data: " + data + b"\n\n")
    parse_whole_answer(api, data)
