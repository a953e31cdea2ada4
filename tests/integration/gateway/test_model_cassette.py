"""A recorded session replayed: the same answers and usage, without a provider."""

from __future__ import annotations

from pathlib import Path

from support.model_gateways import SECRET, TOKEN, build_model_options, start_model_gateway
from support.model_providers import answer_json, build_message, build_message_events, start_provider, stream_events

ASKED = {"model": "claude-test", "stream": True, "messages": [{"role": "user", "content": "Go."}]}
THEN = {
    "model": "claude-test",
    "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "On."},
    ],
}
CLOSED_PORT = "http://127.0.0.1:9"


def test_a_recorded_session_is_replayed_without_a_provider(tmp_path: Path) -> None:
    cassette = tmp_path / "cassette.jsonl"
    with (
        start_provider(stream_events(build_message_events()), answer_json(200, build_message(wrote=33))) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, record=str(cassette))) as gateway,
    ):
        gateway.send_call(body=ASKED)
        gateway.send_call(body=THEN)
        recorded = gateway.read_usage()
    with start_model_gateway(
        tmp_path / "b", build_model_options(CLOSED_PORT, replay=str(cassette)), secrets={}
    ) as gateway:
        first, second = gateway.send_call(body=ASKED), gateway.send_call(body=THEN)
        played = gateway.read_usage()

    assert first.headers["content-type"] == "text/event-stream"
    assert b"message_stop" in first.body
    assert second.content["usage"] == {"input_tokens": 100, "output_tokens": 33}
    figures = ("model", "input", "output", "micro_usd", "complete", "status")
    assert [[line[name] for name in figures] for line in played] == [
        [line[name] for name in figures] for line in recorded
    ]
    text = cassette.read_text()
    assert SECRET not in text
    assert TOKEN not in text


def test_a_call_that_was_not_recorded_is_refused(tmp_path: Path) -> None:
    cassette = tmp_path / "cassette.jsonl"
    cassette.write_text("")
    with start_model_gateway(
        tmp_path / "b", build_model_options(CLOSED_PORT, replay=str(cassette)), secrets={}
    ) as gateway:
        received = gateway.send_call(body=ASKED)
        (line,) = gateway.read_usage()

    assert received.status == 404
    assert f"the cassette {cassette} holds no answer to this call" in received.content["error"]["message"]
    assert (line["refused"], line["micro_usd"]) == ("not_recorded", 0)
