"""Bytes through a tunnel: all of them, with backpressure and an idle timeout."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from support.gateways import (
    SHORT_TIMEOUTS,
    GatewayHarness,
    build_client_hello,
    close_stream,
    format_connect,
    run_scenario,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "попытка один"


def test_either_side_may_finish_first(folder: Path) -> None:
    async def answer_after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        while data := await reader.read(65536):
            said += data
        writer.write(b"you said %d bytes" % len(said))

    async def scenario(harness: GatewayHarness) -> None:
        hello = build_client_hello("example.org")
        answer = await harness.send_request(format_connect("example.org:443") + hello + b"and that is all")
        assert answer.endswith(b"you said %d bytes" % (len(hello) + 15))

    run_scenario(folder, scenario, behave=answer_after_the_end)


def test_large_transfers_arrive_unchanged_in_both_directions(folder: Path) -> None:
    hello = build_client_hello("example.org")
    load = bytes(range(256)) * 64 * 1024  # 16 MB

    async def scenario(harness: GatewayHarness) -> None:
        stream = await harness.open_tunnel()

        async def say() -> None:
            stream.writer.write(hello)
            for at in range(0, len(load), 1 << 18):
                stream.writer.write(load[at : at + (1 << 18)])
                await stream.writer.drain()
            stream.writer.write_eof()

        saying = asyncio.ensure_future(say())
        assert await stream.reader.read() == hello + load
        await saying
        await close_stream(stream)

    (line,) = run_scenario(folder, scenario, timeouts=replace(SHORT_TIMEOUTS, idle=60.0)).read_log()

    assert line["bytes_up"] == line["bytes_down"] == len(hello) + len(load)


def test_a_server_that_does_not_read_holds_its_client_back(folder: Path) -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
        await never.wait()

    never = asyncio.Event()

    async def scenario(harness: GatewayHarness) -> None:
        stream = await harness.open_tunnel()
        stream.writer.write(build_client_hello("example.org"))
        with pytest.raises((TimeoutError, ConnectionError)):
            async with asyncio.timeout(20):
                for _ in range(1000):
                    stream.writer.write(bytes(1 << 18))
                    await stream.writer.drain()
        never.set()
        stream.writer.transport.abort()

    (line,) = run_scenario(folder, scenario, behave=deaf).read_log()

    assert line["bytes_up"] < 100 << 20
    assert "closed: idle" in line["details"]


def test_a_reset_connection_is_reset_on_the_other_side_too(folder: Path) -> None:
    async def tear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def scenario(harness: GatewayHarness) -> None:
        stream = await harness.open_tunnel()
        stream.writer.write(build_client_hello("example.org"))
        assert await stream.reader.read() == b""
        await close_stream(stream)

    assert "cut off" in run_scenario(folder, scenario, behave=tear).read_log()[0]["details"]


def test_a_silent_tunnel_is_closed(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        stream = await harness.open_tunnel()
        hello = build_client_hello("example.org")
        stream.writer.write(hello)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await stream.reader.readexactly(len(hello) + 1)
        await close_stream(stream)

    assert "idle for 0.5 seconds" in run_scenario(folder, scenario).read_log()[0]["details"]


def test_the_number_of_open_connections_is_limited(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        sides = [await harness.open_tunnel() for _ in range(3)]
        assert (await harness.send_request(b"GET / HTTP/1.1\r\n\r\n")).startswith(
            b"HTTP/1.1 503 more than 3 connections"
        )
        for stream in sides:
            await close_stream(stream)
        while not (await harness.send_request(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200"):
            await asyncio.sleep(0.01)

    run_scenario(folder, scenario, max_connections=3)


def test_no_more_requests_are_served_when_the_log_is_full(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        while not (answer := await harness.send_request(format_connect("example.org:443"))).startswith(b"HTTP/1.1 503"):
            assert b"200" in answer
        assert b"the gateway's record is full" in answer

    harness = run_scenario(folder, scenario, max_log_bytes=2000)

    assert (folder / "gateway.jsonl").stat().st_size <= 2000
    assert harness.upstream.connections < 10
