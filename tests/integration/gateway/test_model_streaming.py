"""Calls to a model through the gateway: forwarded unchanged, with another credential, and metered."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.gateway.model_api.body import ChunkDecoder
from support.model_gateways import SECRET, TOKEN, RunningGateway, build_model_options, start_model_gateway
from support.model_providers import (
    Provider,
    answer_json,
    build_error,
    build_message,
    build_message_events,
    format_event,
    start_provider,
    stream_events,
)

RESPONSE = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 20}
CHAT = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens": 20}
GEMINI = {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 15, "thoughtsTokenCount": 5}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Provider, RunningGateway]]:
    folder = tmp_path_factory.mktemp("model") / "попытка 1"
    with (
        start_provider(answer_json(200, build_message())) as provider,
        start_model_gateway(folder, build_model_options(provider.url)) as gateway,
    ):
        yield provider, gateway


@pytest.fixture
def provider(pair: tuple[Provider, RunningGateway]) -> Provider:
    harness, _ = pair
    harness.plays[:], harness.connections = [answer_json(200, build_message())], 0
    harness.asked.clear()
    return harness


@pytest.fixture
def gateway(pair: tuple[Provider, RunningGateway]) -> RunningGateway:
    """Share one gateway among the tests; its logs are emptied before each."""
    _, harness = pair
    (harness.folder / "usage.jsonl").write_text("")
    return harness


def test_an_answer_is_forwarded_unchanged_and_its_usage_is_logged(gateway: RunningGateway, provider: Provider) -> None:
    received = gateway.send_call(body={"model": "claude-test", "messages": []})

    assert (received.status, received.content, received.headers["connection"]) == (200, build_message(), "close")
    (asked,) = provider.asked
    assert (asked.method, asked.path, asked.content) == (
        "POST",
        "/v1/messages",
        {"model": "claude-test", "messages": []},
    )
    (line,) = gateway.read_usage()
    assert line["attempt"] == "попытка 1"
    assert (line["api"], line["model"], line["status"], line["complete"]) == ("anthropic", "claude-test", 200, True)
    assert (line["input"], line["output"], line["micro_usd"], line["priced_as"]) == (100, 20, 200, "*-test")
    assert (line["refused"], line["tries"]) == ("", 1)
    status = gateway.read_status()
    assert status == {
        "parked": None,
        "refused": None,
        "gave_up": None,
        "unanswered": None,
        "problem": "",
        "near": [],
        "lives": True,
    }


def test_the_credential_is_added_and_the_agents_token_removed(gateway: RunningGateway, provider: Provider) -> None:
    gateway.send_call(
        "/anthropic/v1/messages?beta=true&key=" + TOKEN, no_token="1", accept_encoding="gzip", user_agent="cli/1"
    )

    (asked,) = provider.asked
    assert asked.path == "/v1/messages?beta=true"
    assert asked.headers["x-api-key"] == SECRET
    assert asked.headers["host"] == f"127.0.0.1:{provider.port}"
    assert (asked.headers["accept-encoding"], asked.headers["user-agent"]) == ("identity", "cli/1")
    assert TOKEN not in repr(asked)


@pytest.mark.parametrize(
    ("target", "shown", "path", "credential"),
    [
        ("/anthropic/v1/messages", {"authorization": f"Bearer {TOKEN}"}, "/v1/messages", ("x-api-key", SECRET)),
        (
            "/openai/responses",
            {"authorization": f"Bearer {TOKEN}"},
            "/v1/responses",
            ("authorization", f"Bearer {SECRET}"),
        ),
        (
            "/gemini/v1beta/models/gemini-test:generateContent",
            {"x-goog-api-key": TOKEN},
            "/v1beta/models/gemini-test:generateContent",
            ("x-goog-api-key", SECRET),
        ),
    ],
)
def test_each_api_is_reached_in_its_own_way(
    pair: tuple[Provider, RunningGateway], target: str, shown: dict[str, str], path: str, credential: tuple[str, str]
) -> None:
    provider, gateway = pair
    assert gateway.send_call(target, **shown).status == 200

    asked = provider.asked[-1]
    assert asked.path == path
    assert asked.headers[credential[0]] == credential[1]
    assert TOKEN not in repr(asked)


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        (
            "/openai/responses",
            answer_json(200, {"object": "response", "model": "gpt-test", "status": "completed", "usage": RESPONSE}),
        ),
        (
            "/openai/responses",
            stream_events(
                [
                    format_event("response.created", {"type": "response.created", "response": {"model": "gpt-test"}}),
                    format_event(
                        "response.completed",
                        {"type": "response.completed", "response": {"model": "gpt-test", "usage": RESPONSE}},
                    ),
                ]
            ),
        ),
        ("/openai/chat/completions", answer_json(200, {"model": "gpt-test", "choices": [], "usage": CHAT})),
        (
            "/openai/chat/completions",
            stream_events(
                [
                    b'data: {"model": "gpt-test", "choices": [{"delta": {"content": "Hi"}}]}\n\n',
                    b'data: {"model": "gpt-test", "choices": [], "usage": %b}\n\ndata: [DONE]\n\n'
                    % json.dumps(CHAT).encode(),
                ]
            ),
        ),
        (
            "/gemini/v1beta/models/gpt-test:generateContent",
            answer_json(
                200, {"candidates": [{"finishReason": "STOP"}], "modelVersion": "gpt-test", "usageMetadata": GEMINI}
            ),
        ),
        (
            "/gemini/v1beta/models/gpt-test:streamGenerateContent?alt=sse",
            stream_events(
                [
                    b'data: {"candidates": [{"finishReason": "STOP"}], "usageMetadata": %b}\n\n'
                    % json.dumps(GEMINI).encode()
                ]
            ),
        ),
    ],
)
def test_every_wire_format_is_metered_alike(
    gateway: RunningGateway, provider: Provider, target: str, answer: object
) -> None:
    provider.plays[:] = [answer]  # type: ignore[list-item]  # a play

    received = gateway.send_call(target, {"model": "gpt-test", "stream": True})

    assert received.whole
    (line,) = gateway.read_usage()
    assert (line["input"], line["cache_read"], line["output"], line["complete"]) == (60, 40, 20, True)
    assert (line["model"], line["micro_usd"]) == ("gpt-test", 60 + 4 + 100)


def test_a_stream_is_forwarded_while_it_arrives(gateway: RunningGateway, provider: Provider) -> None:
    pieces, go_on = build_message_events(cache_read_input_tokens=7, cache_creation_input_tokens=9), threading.Event()
    provider.plays[:] = [stream_events([pieces[0], pieces[1], go_on, *pieces[2:]])]

    with gateway.start_call(body={"model": "claude-test", "stream": True}) as agent_call:
        status, headers = agent_call.read_head()
        received = agent_call.read_chunk()
        while len(received) < len(pieces[0] + pieces[1]):
            received += agent_call.read_chunk()  # the provider has not sent the rest yet
        go_on.set()
        while part := agent_call.read_chunk():
            received += part

    assert (status, headers["content-type"], received) == (200, "text/event-stream", b"".join(pieces))
    (line,) = gateway.read_usage()
    assert [line[kind] for kind in ("input", "output", "cache_read", "cache_write", "complete")] == [
        100,
        20,
        7,
        9,
        True,
    ]


def test_usage_is_requested_where_the_api_does_not_report_it_by_default(
    gateway: RunningGateway, provider: Provider
) -> None:
    asked = {"model": "gpt-test", "stream": True, "stream_options": {"include_usage": False, "other": 1}, "text": "ä"}

    gateway.send_call("/openai/chat/completions", asked)

    assert provider.asked[0].content == {**asked, "stream_options": {"include_usage": True, "other": 1}}


@pytest.mark.parametrize("headers", [{"x_api_key": "bf-another"}, {"no_token": "1"}, {"authorization": "Basic eA=="}])
def test_without_the_attempts_token_nothing_goes_out(
    gateway: RunningGateway, provider: Provider, headers: dict[str, str]
) -> None:
    received = gateway.send_call(**headers)

    assert (received.status, received.content["error"]["type"]) == (401, "authentication_error")
    assert (provider.asked, gateway.read_usage()) == ([], [])


@pytest.mark.parametrize(
    "target",
    [
        "/anthropic/v1/messages/batches",
        "/anthropic/v1/complete",
        "/anthropic/v1/../v1/messages",
        "/anthropic//v1/messages",
        "/openai/embeddings",
        "/openai/v1/responses",
        "/gemini/v1beta/models/x:embedContent",
        "/gemini/v1beta/models/../x:generateContent",
    ],
)
def test_a_call_that_could_not_be_metered_is_refused(gateway: RunningGateway, provider: Provider, target: str) -> None:
    received = gateway.send_call(target)

    assert received.status == 404
    assert "could not be metered" in received.body.decode()
    assert provider.asked == []


def test_an_answer_in_a_format_without_readable_usage_is_refused(gateway: RunningGateway, provider: Provider) -> None:
    received = gateway.send_call("/gemini/v1beta/models/gemini-test:generateContent?alt=proto")

    assert received.status == 400
    assert "'alt'" in received.content["error"]["message"]
    assert provider.asked == []


def test_responses_in_the_background_are_refused(gateway: RunningGateway, provider: Provider) -> None:
    received = gateway.send_call("/openai/responses", {"model": "gpt-test", "background": True})

    assert received.status == 400
    assert "background" in received.content["error"]["message"]
    assert provider.asked == []


def test_a_free_call_is_forwarded_without_a_line(gateway: RunningGateway, provider: Provider) -> None:
    provider.plays[:] = [answer_json(200, {"input_tokens": 12})]

    assert gateway.send_call("/anthropic/v1/messages/count_tokens").content == {"input_tokens": 12}
    assert gateway.read_usage() == []


def test_a_chunked_body_arrives_whole(gateway: RunningGateway, provider: Provider) -> None:
    body = json.dumps({"model": "claude-test", "text": "x" * 100_000}).encode()
    parts = [body[:10], body[10:70_000], body[70_000:]]
    chunks = b"".join(b"%X;ext=1\r\n%b\r\n" % (len(part), part) for part in parts)

    assert gateway.send_call(body=chunks + b"0\r\nX-Trailer: 1\r\n\r\n", transfer_encoding="chunked").status == 200
    assert provider.asked[0].body == body


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content_length": str(64 * 1024 * 1024 + 1)}, b"x", 413),
        ({"transfer_encoding": "chunked"}, b"FFFFFFF\r\n", 413),
        ({"transfer_encoding": "chunked"}, b"nonsense\r\n", 400),
        ({"transfer_encoding": "gzip, chunked"}, b"0\r\n\r\n", 400),
        ({"content_length": "1, 2"}, b"xx", 400),
    ],
)
def test_a_body_that_is_too_large_or_malformed_is_refused(
    gateway: RunningGateway, provider: Provider, headers: dict[str, str], body: bytes, status: int
) -> None:
    assert gateway.send_call(body=body, **headers).status == status
    assert provider.asked == []


def test_errors_of_the_provider_are_forwarded(gateway: RunningGateway, provider: Provider) -> None:
    provider.plays[:] = [answer_json(400, build_error("invalid_request_error", "No such model."), request_id="req_1")]

    received = gateway.send_call()

    assert (received.status, received.headers["request-id"]) == (400, "req_1")
    assert received.content["error"]["message"] == "No such model."
    (line,) = gateway.read_usage()
    assert (line["status"], line["micro_usd"], line["complete"], line["tries"]) == (400, 0, True, 1)


def test_an_answer_that_breaks_off_is_forwarded_as_broken(gateway: RunningGateway, provider: Provider) -> None:
    provider.plays[:] = [stream_events(build_message_events()[:2], whole=False)]

    received = gateway.send_call(body={"model": "claude-test", "stream": True})

    assert not received.whole
    (line,) = gateway.wait_for_usage()
    assert (line["status"], line["input"], line["complete"]) == (200, 100, False)
    assert 20 <= line["output"] < 128_000, "what arrived, not what it might have written"
    assert len(provider.asked) == 1  # no retry once a byte has been forwarded


def test_an_answer_that_breaks_off_after_its_figures_is_counted_by_them_and_reported(
    gateway: RunningGateway, provider: Provider
) -> None:
    provider.plays[:] = [stream_events(build_message_events(), whole=False)]

    gateway.send_call(body={"model": "claude-test", "stream": True})

    (line,) = gateway.wait_for_usage()
    assert (line["output"], line["complete"]) == (20, True)
    assert gateway.read_status()["unanswered"]["kind"] == "network"


def test_an_answer_in_several_compressed_parts_is_read_to_its_end(gateway: RunningGateway, provider: Provider) -> None:
    events = b"".join(build_message_events())
    packed = gzip.compress(events[:200]) + gzip.compress(events[200:])
    provider.plays[:] = [answer_json(200, packed, content_encoding="gzip")]

    gateway.send_call(body={"model": "claude-test", "stream": True})

    (line,) = gateway.wait_for_usage()
    assert (line["input"], line["output"], line["complete"]) == (100, 20, True)


def test_the_connection_to_the_provider_is_reused(gateway: RunningGateway, provider: Provider) -> None:
    for _ in range(3):
        assert gateway.send_call().status == 200

    assert len(provider.asked) == 3
    assert provider.connections <= 1


def test_health_checks_of_clients_are_answered_here(gateway: RunningGateway, provider: Provider) -> None:
    import http.client

    for method, target in (("HEAD", "/anthropic/"), ("GET", "/anthropic/api/hello"), ("HEAD", "/anthropic")):
        client = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)
        client.request(method, target)
        assert client.getresponse().status == 200
        client.close()
    client = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)
    client.request("GET", "/")
    assert json.loads(client.getresponse().read())["models"] == ["/anthropic/", "/gemini/", "/openai/"]
    client.close()
    assert provider.asked == []


def test_an_api_that_the_runtime_does_not_use_is_not_available(provider: Provider, tmp_path: Path) -> None:
    options = build_model_options(provider.url)
    del options["apis"]["openai"]
    with start_model_gateway(tmp_path / "a", options) as gateway:
        received = gateway.send_call("/openai/responses")

    assert received.status == 404
    assert "the openai API is not available" in received.content["error"]["message"]


def test_a_login_is_read_again_for_each_call(provider: Provider, tmp_path: Path) -> None:
    login = tmp_path / "credentials.json"

    def log_in(token: str, expires: float) -> None:
        login.write_text(json.dumps({"claudeAiOauth": {"accessToken": token, "expiresAt": expires * 1000}}))

    options = build_model_options(provider.url)
    options["apis"] = {"anthropic": {"upstream": provider.url, "auth": "oauth", "file": str(login)}}
    with start_model_gateway(tmp_path / "a", options, secrets={}) as gateway:
        unread = gateway.send_call()
        for token in ("first", "second"):
            log_in(token, time.time() + 3600)
            assert gateway.send_call(anthropic_beta="effort-2025-11-24,some-beta").status == 200
        log_in("third", time.time() - 1)
        expired = gateway.send_call()
        lines = gateway.read_usage()

    assert [asked.headers["authorization"] for asked in provider.asked] == ["Bearer first", "Bearer second"]
    assert {asked.headers["anthropic-beta"] for asked in provider.asked} == {"effort-2025-11-24,oauth-2025-04-20"}
    assert "x-api-key" not in provider.asked[0].headers
    assert (unread.status, expired.status) == (402, 402)
    assert "has expired" in expired.content["error"]["message"]
    assert [line["refused"] for line in lines] == ["gave_up", "", "", "gave_up"]


def test_the_secret_is_in_none_of_its_files_nor_in_what_others_see_of_its_process(
    gateway: RunningGateway, provider: Provider
) -> None:
    gateway.send_call()

    for file in gateway.folder.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file
    for name in ("cmdline", "environ"):
        assert SECRET.encode() not in Path(f"/proc/{gateway.pid}/{name}").read_bytes()


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.lists(st.integers(1, 50), min_size=1, max_size=60),
)
def test_chunks_are_decoded_however_the_bytes_arrive(bodies: list[bytes], sizes: list[int]) -> None:
    framed = b"".join(b"%x;a=b\r\n%b\r\n" % (len(body), body) for body in bodies) + b"0\r\nx: y\r\n\r\nmore"
    chunks, found, at = ChunkDecoder(), b"", 0
    while at < len(framed):
        size = sizes[at % len(sizes)]
        if not chunks.done:
            found += chunks.feed(framed[at : at + size])
        at += size

    assert (found, chunks.done) == (b"".join(bodies), True)
