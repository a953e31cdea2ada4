"""An HTTP server on loopback whose pages misbehave as the test says."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

Misbehave = Callable[[asyncio.StreamWriter], Awaitable[None]]


def format_response(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    names = {"Content-Length": str(len(body))} | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in names.items() if value), "", ""]
    return "\r\n".join(lines).encode() + body


def format_rss(*items: str) -> bytes:
    """Each item is what is between <item> and </item>."""
    listed = "".join(f"<item>{item}</item>" for item in items)
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>{listed}</channel></rss>'.encode()


def format_item(guid: str, title: str = "") -> str:
    return f"<guid>{guid}</guid><title>{title or guid}</title><link>https://example.com/{guid}</link>"


@dataclass
class FeedServer:
    port: int = 0
    pages: dict[str, bytes | Misbehave] = field(default_factory=dict)
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def build_url(self, path: str = "/feed", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(cast("asyncio.Task[None]", asyncio.current_task()))
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines if line)
            path = first.split(" ")[1]
            self.requests.append((path, headers))
            page = self.pages.get(path, format_response(404))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
            writer.close()
            await writer.wait_closed()
        writer.transport.abort()


@asynccontextmanager
async def run_feed_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[FeedServer]:
    found = FeedServer()
    server = await asyncio.start_server(found.serve, "127.0.0.1", ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in found.tasks:
            task.cancel()
        await asyncio.gather(*found.tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next round of the loop


async def drip_forever(writer: asyncio.StreamWriter) -> None:
    """A byte now and then: no single wait is long."""
    writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def stream_forever(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def send_endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\n")
    while True:
        writer.write(b"X-More: " + b"y" * 1_000 + b"\r\n")
        await writer.drain()


async def send_chunks_forever(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"8000\r\n" + b"z" * 0x8000 + b"\r\n")
        await writer.drain()


async def send_half(writer: asyncio.StreamWriter) -> None:
    writer.write(format_response(body=format_rss(format_item("a")))[:-40])
    await writer.drain()


GZIP_BOMB = format_response(body=gzip.compress(b"\0" * 50_000_000), Content_Encoding="gzip")
BILLION_LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a0 "lol">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 11))
    + ']><rss version="2.0"><channel><item><title>&a10;</title></item></channel></rss>'
).encode()
EXTERNAL_ENTITY = (
    b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    b'<rss version="2.0"><channel><item><guid>a</guid><title>[&x;]</title></item></channel></rss>'
)
DEEP_NESTING = b'<rss version="2.0"><channel><item>' + b"<a>" * 100_000 + b"</item></channel></rss>"
HTML_PAGE = b"<!doctype html><html><body><h1>404</h1><p>Not here</body></html>"
