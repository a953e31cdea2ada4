"""A gateway's counter in this very process, with a server behind it that remembers what reached it."""

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

from blueflame.gateway.access_log import Book
from blueflame.gateway.connect import Address, system_connect
from blueflame.gateway.options import read_orders
from blueflame.gateway.relay import Patience, Side
from blueflame.gateway.request_context import MOST_OPEN, Counter
from blueflame.gateway.server import listen

QUICK = Patience(head=0.3, hello=0.3, resolve=0.3, connect=1.0, idle=0.5, linger=0.5)
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@dataclass
class Upstream:
    """A server on loopback: how often it was reached, and all it was told."""

    behave: Behaviour = echo
    port: int = 0
    connections: int = 0
    heard: bytearray = field(default_factory=bytearray)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        read = reader.read

        async def overheard(n: int = -1) -> bytes:
            data = await read(n)
            self.heard += data
            return data

        reader.read = overheard  # type: ignore[method-assign]  # a tap on the line, whatever reads from it
        with suppress(ConnectionError):
            await self.behave(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@dataclass
class Stage:
    """`answers` is what the resolver says, one after the other; `reached` are the addresses connected to."""

    folder: Path
    upstream: Upstream
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

    async def connect(self, address: Address) -> Side:
        """Whatever the address, the upstream is behind it."""
        self.reached.append(address)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.upstream.port, local_addr=(self.source, 0)
        )  # from another address than its own: a connection to oneself is refused
        return Side(reader=reader, writer=writer)

    async def call(self) -> Side:
        return await system_connect(("127.0.0.1", self.port))

    async def ask(self, request: bytes, *, end: bool = True) -> bytes:
        """Say it, and hear all until the gateway closes."""
        side = await self.call()
        side.writer.write(request)
        with suppress(OSError):
            await side.writer.drain()
            if end:
                side.writer.write_eof()
        heard = b""
        with suppress(ConnectionError):
            heard = await side.reader.read()
        await hang_up(side)
        return heard

    async def tunnel(self, target: str = "example.org:443") -> Side:
        side = await self.call()
        side.writer.write(connect(target))
        assert await side.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        return side

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "gateway.jsonl").read_text().splitlines()]


Play = Callable[[Stage], Coroutine[object, object, None]]


async def hang_up(side: Side) -> None:
    side.writer.close()
    with suppress(ConnectionError):
        await side.writer.wait_closed()


def connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic geheim\r\n\r\n".encode()


@asynccontextmanager
async def stage(
    folder: Path,
    hosts: Sequence[str] = ("example.org",),
    *,
    answers: Sequence[Sequence[str]] = (("151.101.0.223",),),
    behave: Behaviour = echo,
    patience: Patience = QUICK,
    most_open: int = MOST_OPEN,
    largest_book: int = 1 << 20,
) -> AsyncIterator[Stage]:
    folder.mkdir(parents=True, exist_ok=True)
    upstream = Upstream(behave)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.port = server.sockets[0].getsockname()[1]
    scene = Stage(folder, upstream, list(answers))
    book = Book(str(folder / "gateway.jsonl"), folder.name, largest=largest_book)
    counter = Counter(
        orders=read_orders(str(folder), {"port": 61128, "hosts": list(hosts)}),
        book=book,
        resolve=scene.resolve,
        connect=scene.connect,
        patience=patience,
        most_open=most_open,
    )
    listener = await listen(counter, socket.create_server(("127.0.0.1", 0)))
    scene.port = listener.sockets[0].getsockname()[1]
    try:
        yield scene
    finally:
        listener.close()
        server.close()
        await _all_done()
        book.close()


async def _all_done() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


def play(folder: Path, scene: Play, *hosts: str, **wishes: object) -> Stage:
    """The scene on a stage of its own; what is left of it can be looked at afterwards."""

    async def run() -> Stage:
        async with stage(folder, hosts or ("example.org",), **wishes) as there:  # type: ignore[arg-type]  # passed on
            await scene(there)
        return there

    return asyncio.run(run())


def client_hello(name: str | None) -> bytes:
    """The first bytes of a real TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


SEEDS = st.sampled_from(
    [connect("example.org:443"), client_hello("example.org"), b"GET http://example.org/ HTTP/1.1\r\n\r\n"]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A proper request with something wrong somewhere."""
    seed = draw(SEEDS)
    at, length = draw(st.integers(0, len(seed) - 1)), draw(st.integers(0, 8))
    return seed[:at] + draw(st.binary(max_size=8)) + seed[at + length :]
