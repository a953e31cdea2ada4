"""Relay bytes between two streams: bounded memory, and either side may finish first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine

from blueflame.gateway.access_log import AccessEntry
from blueflame.lazy_dataclass import dataclass
from blueflame.system.http import MAX_HEAD_BYTES

CHUNK_BYTES = 256 * 1024

CountBytes = Callable[[int], None]
SendRequest = Callable[[CountBytes], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One TCP connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTimeouts:
    """Seconds."""

    head: float = 10.0
    hello: float = 10.0
    resolve: float = 15.0
    connect: float = 15.0
    idle: float = 600.0
    linger: float = 10.0


async def relay_both_ways(client: Stream, upstream: Stream, entry: AccessEntry, send: SendRequest, idle: float) -> None:
    """Relay until both sides have finished. `send` forwards the client's bytes and counts them."""
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(idle) as quiet:

        def sent(count: int) -> None:
            entry.up += count
            quiet.reschedule(now() + idle)

        def received(count: int) -> None:
            entry.down += count
            quiet.reschedule(now() + idle)

        await _run_both(send(sent), copy_until_eof(upstream, client, received))


async def copy_until_eof(source: Stream, target: Stream, count: CountBytes) -> None:
    """Copy until the source ends, then end the target's input; the other direction may continue."""
    while data := await source.reader.read(CHUNK_BYTES):
        count(len(data))
        target.writer.write(data)
        await target.writer.drain()
    target.writer.write_eof()


async def _run_both(one: Coroutine[object, object, None], other: Coroutine[object, object, None]) -> None:
    """Run both; when one fails, cancel the other."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def close_stream(stream: Stream, timeouts: GatewayTimeouts) -> None:
    """Close. What is already written may still be sent, within a time limit."""
    stream.writer.close()
    try:
        async with asyncio.timeout(timeouts.linger):
            await stream.writer.wait_closed()
    except (OSError, TimeoutError):
        stream.writer.transport.abort()


async def send_last_bytes(stream: Stream, data: bytes, timeouts: GatewayTimeouts) -> None:
    """Send the end of an answer. Read on for a moment: a reset on unread input would discard it at the client."""
    try:
        async with asyncio.timeout(min(1.0, timeouts.linger)):
            stream.writer.write(data)
            await stream.writer.drain()
            stream.writer.write_eof()
            read = 0
            while read < 4 * MAX_HEAD_BYTES and (part := await stream.reader.read(MAX_HEAD_BYTES)):
                read += len(part)
    except (OSError, TimeoutError):
        pass


def describe_os_error(e: Exception) -> str:
    if isinstance(e, OSError) and e.errno and e.errno > 0:
        return os.strerror(e.errno)  # asyncio's own message names the address twice
    return (e.strerror if isinstance(e, OSError) else None) or type(e).__name__
