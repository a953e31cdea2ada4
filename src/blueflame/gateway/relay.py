"""Bytes from one side to the other: never more in memory than the slower side takes, either side may finish first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.request import MAX_HEAD_BYTES

CHUNK_BYTES = 256 * 1024

CountBytes = Callable[[int], None]
SendRequest = Callable[[CountBytes], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One connection, seen from here."""

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
    """Until both sides have said all. `send` passes on what the client says, and tells how much that was."""
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(idle) as quiet:

        def sent(count: int) -> None:
            entry.up += count
            quiet.reschedule(now() + idle)

        def received(count: int) -> None:
            entry.down += count
            quiet.reschedule(now() + idle)

        await _run_both(send(sent), copy_until_eof(upstream, client, received))


async def copy_until_eof(source: Stream, target: Stream, heard: CountBytes) -> None:
    """Until the source has said all; the target is told so and may go on talking."""
    while data := await source.reader.read(CHUNK_BYTES):
        heard(len(data))
        target.writer.write(data)
        await target.writer.drain()
    target.writer.write_eof()


async def _run_both(one: Coroutine[object, object, None], other: Coroutine[object, object, None]) -> None:
    """Until both are done; when one fails the other ends with it."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def close_stream(side: Stream, patience: GatewayTimeouts) -> None:
    """What is written already may still get through, but nobody keeps us by not reading it."""
    side.writer.close()
    try:
        async with asyncio.timeout(patience.linger):
            await side.writer.wait_closed()
    except (OSError, TimeoutError):
        side.writer.transport.abort()


async def send_last_bytes(side: Stream, data: bytes, patience: GatewayTimeouts) -> None:
    """The last words to a client. What it still sends is read for a moment: closing at once would tear them up."""
    try:
        async with asyncio.timeout(min(1.0, patience.linger)):
            side.writer.write(data)
            await side.writer.drain()
            side.writer.write_eof()
            read = 0
            while read < 4 * MAX_HEAD_BYTES and (part := await side.reader.read(MAX_HEAD_BYTES)):
                read += len(part)
    except (OSError, TimeoutError):
        pass
