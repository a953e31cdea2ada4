"""Pings keep a waiting client's stream alive; an error after them is sent as an event."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from blueflame.gateway.access_log import AccessLog
from blueflame.gateway.connect import RequestContext
from blueflame.gateway.model_api.backoff import WaitTimes
from blueflame.gateway.model_api.handler import ModelHandler
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.model_api.usage_log import UsageLog
from blueflame.gateway.options import read_options
from blueflame.gateway.relay import GatewayTimeouts
from blueflame.gateway.server import start_listener
from support.model_gateways import SECRET, TOKEN, AgentCall, build_model_options
from support.model_providers import (
    answer_json,
    build_error,
    build_message,
    build_message_events,
    start_provider,
    stream_events,
)
from support.wardens import wait_until

FAST_PINGS = WaitTimes(first=1.0, longest=1.0, poll=0.1, first_ping=0.1, ping=0.1, renewal=0.1)
LIMITED = answer_json(429, build_error(), retry_after_ms="700")
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


@contextmanager
def start_fast_gateway(
    folder: Path, url: str, *, idle: float = 600.0, warden: socket.socket | None = None, **more: object
) -> Iterator[int]:
    """Run a gateway in this process that pings after a tenth of a second. Yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    loop = asyncio.new_event_loop()
    ends = asyncio.Event()

    async def serve() -> None:
        options = read_options(str(folder), {"hosts": [], "model": build_model_options(url, **more)}, {"key": SECRET})
        assert options.model is not None
        access_log, usage_log = AccessLog(str(folder / "gateway.jsonl"), "a"), UsageLog(str(folder), "a")
        handler = ModelHandler(
            options.model,
            usage_log,
            str(folder),
            StatusReporter(warden),
            timeouts=GatewayTimeouts(idle=idle),
            wait_times=FAST_PINGS,
        )
        server = await start_listener(RequestContext(options=options, access_log=access_log, model=handler), listener)
        await ends.wait()
        server.close()
        await handler.close()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
        await asyncio.sleep(0)  # connections that were cut are closed in the loop's next turn
        usage_log.close()
        access_log.close()

    serving = Thread(target=loop.run_until_complete, args=(serve(),))
    serving.start()
    try:
        yield listener.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(ends.set)
        serving.join()
        loop.close()


def ask(port: int, target: str, body: object) -> tuple[int, bytes]:
    data = json.dumps(body).encode()
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    sock.sendall(f"POST {target} HTTP/1.1\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    with AgentCall(sock) as agent_call:
        received = agent_call.read_answer()
    assert received.whole
    return received.status, received.body


def lines(folder: Path) -> list[dict[str, object]]:
    log = folder / "usage.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


STREAM = {"model": "claude-test", "stream": True}


def test_a_client_that_waits_for_a_stream_gets_pings_and_then_the_answer(tmp_path: Path) -> None:
    with (
        start_provider(LIMITED, stream_events(build_message_events())) as provider,
        start_fast_gateway(tmp_path, provider.url) as port,
    ):
        status, body = ask(port, "/anthropic/v1/messages", STREAM)

    pings = body.count(PING)
    assert (status, body) == (200, PING * pings + b"".join(build_message_events()))
    assert pings > 0
    (line,) = lines(tmp_path)
    assert (line["status"], line["output"], line["tries"], line["complete"]) == (200, 20, 2, True)


def test_a_client_that_waits_for_one_answer_gets_nothing_before_it(tmp_path: Path) -> None:
    with (
        start_provider(LIMITED, answer_json(200, build_message())) as provider,
        start_fast_gateway(tmp_path, provider.url) as port,
    ):
        status, body = ask(port, "/anthropic/v1/messages", {"model": "claude-test"})

    assert (status, json.loads(body)) == (200, build_message())


@pytest.mark.parametrize(
    ("target", "ping"),
    [
        ("/anthropic/v1/messages", PING),
        ("/openai/responses", b": waiting for the model\n\n"),
        ("/openai/chat/completions", b": waiting for the model\n\n"),
        ("/gemini/v1beta/models/gemini-test:streamGenerateContent?alt=sse", b": waiting for the model\n\n"),
    ],
)
def test_an_error_after_pings_is_sent_as_an_event(tmp_path: Path, target: str, ping: bytes) -> None:
    refused = answer_json(400, {"error": {"message": "No such model.", "code": "odd"}})
    with start_provider(LIMITED, refused) as provider, start_fast_gateway(tmp_path, provider.url) as port:
        status, body = ask(port, target, STREAM)

    last = body.replace(ping, b"").decode()
    assert status == 200
    assert last.startswith("event: error\ndata: " if target.endswith(("messages", "responses")) else "data: ")
    assert "No such model." in last
    (line,) = lines(tmp_path)
    assert (line["status"], line["micro_usd"], line["complete"]) == (400, 0, True)


def test_an_exceeded_wait_after_pings_is_an_event_too(tmp_path: Path) -> None:
    down = answer_json(503, build_error("api_error", "Down."))
    with start_provider(down) as provider, start_fast_gateway(tmp_path, provider.url, outage_wait=0.5) as port:
        _, body = ask(port, "/anthropic/v1/messages", STREAM)

    assert json.loads(body.replace(PING, b"").decode().removeprefix("event: error\ndata: ")) == build_error(
        "api_error", "Down."
    )
    assert [line["refused"] for line in lines(tmp_path)] == ["gave_up"]


@pytest.mark.parametrize(("reads", "most"), [(False, True), (True, False)])
def test_an_agent_that_does_not_read_is_charged_as_one_that_hung_up(tmp_path: Path, *, reads: bool, most: bool) -> None:
    """Else it would get what was sent so far for less than the provider may charge."""
    start, text, *_ = build_message_events()
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        start_provider(stream_events([start, *[text * 1000] * (1 if reads else 400), Event()])) as provider,
        start_fast_gateway(tmp_path, provider.url, idle=0.5, warden=theirs, silence=0.1) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as agent,
    ):
        body = json.dumps(STREAM).encode()
        head = f"POST /anthropic/v1/messages HTTP/1.1\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(body)}\r\n\r\n"
        agent.sendall(head.encode() + body)
        last_at = time.monotonic()
        while reads and _receive(agent):
            last_at = time.monotonic()
        wait_until(lambda: lines(tmp_path), "the call is settled")
        theirs.sendall(b"end\n")
        received = [line.partition(b" ") for line in ours.recv(1 << 16).splitlines()]

    reported = [word for word, _, _ in received]
    *_, silence = (json.loads(rest) for word, _, rest in received if word == b"quiet")
    assert silence["since"] <= last_at or not reads, "it began with the last byte, not when that was noticed"
    assert (b"parked" in reported) is reads, "only a silence of the provider stops the clocks"
    assert reported[0] == b"quiet"
    assert b"heard" in reported
    (line,) = lines(tmp_path)
    assert (line["complete"], line["output"] == 128_000) == (False, most)


def _receive(agent: socket.socket) -> bytes:
    try:
        return agent.recv(1 << 16)
    except ConnectionError:
        return b""


def test_what_a_call_may_have_used_is_recorded_each_time_that_it_is_twice_as_old(tmp_path: Path) -> None:
    start, *rest = build_message_events()
    ends = Event()

    def read_sent() -> list[int]:
        return [json.loads(line)["output"] for line in (tmp_path / "sent.jsonl").read_text().splitlines()]

    with (
        start_provider(stream_events([start, ends, *rest])) as provider,
        start_fast_gateway(tmp_path, provider.url) as port,
    ):
        asking = Thread(target=ask, args=(port, "/anthropic/v1/messages", STREAM))
        asking.start()
        wait_until(lambda: provider.asked and len(read_sent()) >= 4, "it was recorded four times")
        ends.set()
        asking.join()

    assert read_sent()[:4] == [25, 50, 100, 200]
