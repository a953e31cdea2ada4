"""A gateway inside the test process, with an upstream server that records what it receives."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from blueflame.gateway.access_log import AccessLog
from blueflame.gateway.connect import MAX_CONNECTIONS, Address, RequestContext, connect_with_system
from blueflame.gateway.options import read_options
from blueflame.gateway.relay import GatewayTimeouts, Stream
from blueflame.gateway.server import start_listener

SHORT_TIMEOUTS = GatewayTimeouts(head=0.3, hello=0.3, resolve=0.3, connect=1.0, idle=0.5, linger=0.5)
ServerBehaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@dataclass
class RecordingServer:
    """A server on loopback that counts its connections and records what it receives."""

    behave: ServerBehaviour = echo_bytes
    port: int = 0
    connections: int = 0
    received: bytearray = field(default_factory=bytearray)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        read = reader.read

        async def read_and_record(n: int = -1) -> bytes:
            data = await read(n)
            self.received += data
            return data

        reader.read = read_and_record  # type: ignore[method-assign]  # records whatever is read
        with suppress(ConnectionError):
            await self.behave(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@dataclass
class GatewayHarness:
    """A running gateway. `answers` are the resolver's, in order; `reached` are the addresses connected to."""

    folder: Path
    upstream: RecordingServer
    answers: list[Sequence[str]]
    port: int = 0
    source: str = "127.0.0.2"
    asked: list[str] = field(default_factory=list)
    reached: list[Address] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        if not self.answers:
            raise OSError(-2, "Name or service not known")
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(address, port) for address in found]

    async def connect(self, address: Address) -> Stream:
        """Connect to the upstream, whatever the address."""
        self.reached.append(address)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.upstream.port, local_addr=(self.source, 0)
        )  # from another address than its own: a connection to oneself is refused
        return Stream(reader=reader, writer=writer)

    async def open_stream(self) -> Stream:
        return await connect_with_system(("127.0.0.1", self.port))

    async def send_request(self, request: bytes, *, end: bool = True) -> bytes:
        """Send the request and return all until the gateway closes."""
        stream = await self.open_stream()
        stream.writer.write(request)
        with suppress(OSError):
            await stream.writer.drain()
            if end:
                stream.writer.write_eof()
        received = b""
        with suppress(ConnectionError):
            received = await stream.reader.read()
        await close_stream(stream)
        return received

    async def open_tunnel(self, target: str = "example.org:443") -> Stream:
        stream = await self.open_stream()
        stream.writer.write(format_connect(target))
        assert await stream.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        return stream

    def read_log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "gateway.jsonl").read_text().splitlines()]


GatewayScenario = Callable[[GatewayHarness], Coroutine[object, object, None]]


async def close_stream(stream: Stream) -> None:
    stream.writer.close()
    with suppress(ConnectionError):
        await stream.writer.wait_closed()


def format_connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic geheim\r\n\r\n".encode()


@asynccontextmanager
async def start_gateway(
    folder: Path,
    hosts: Sequence[str] = ("example.org",),
    *,
    answers: Sequence[Sequence[str]] = (("151.101.0.223",),),
    behave: ServerBehaviour = echo_bytes,
    timeouts: GatewayTimeouts = SHORT_TIMEOUTS,
    max_connections: int = MAX_CONNECTIONS,
    max_log_bytes: int = 1 << 20,
) -> AsyncIterator[GatewayHarness]:
    folder.mkdir(parents=True, exist_ok=True)
    upstream = RecordingServer(behave)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.port = server.sockets[0].getsockname()[1]
    scenario = GatewayHarness(folder, upstream, list(answers))
    access_log = AccessLog(str(folder / "gateway.jsonl"), folder.name, largest=max_log_bytes)
    context = RequestContext(
        options=read_options(str(folder), {"port": 61128, "hosts": list(hosts)}),
        access_log=access_log,
        resolve=scenario.resolve,
        connect=scenario.connect,
        timeouts=timeouts,
        max_connections=max_connections,
    )
    listener = await start_listener(context, socket.create_server(("127.0.0.1", 0)))
    scenario.port = listener.sockets[0].getsockname()[1]
    try:
        yield scenario
    finally:
        listener.close()
        server.close()
        await _wait_for_tasks()
        access_log.close()


async def _wait_for_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


def run_scenario(folder: Path, scenario: GatewayScenario, *hosts: str, **options: object) -> GatewayHarness:
    """Run the scenario with its own gateway and return the ended harness."""

    async def run() -> GatewayHarness:
        async with start_gateway(folder, hosts or ("example.org",), **options) as harness:  # type: ignore[arg-type]  # passed on
            await scenario(harness)
        return harness

    return asyncio.run(run())


def build_client_hello(name: str | None) -> bytes:
    """Build the first bytes of a real TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


VALID_OPENINGS = st.sampled_from(
    [format_connect("example.org:443"), build_client_hello("example.org"), b"GET http://example.org/ HTTP/1.1\r\n\r\n"]
)


@st.composite
def damaged_requests(draw: st.DrawFn) -> bytes:
    """A valid request with one damaged place."""
    seed = draw(VALID_OPENINGS)
    at, length = draw(st.integers(0, len(seed) - 1)), draw(st.integers(0, 8))
    return seed[:at] + draw(st.binary(max_size=8)) + seed[at + length :]
