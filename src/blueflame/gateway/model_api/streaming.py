"""Stream an answer to the agent and a copy of it to the usage reader; send pings while the agent waits.

Without pings a client takes the connection for dead: claude 2.1.325 asks once more after six minutes, then fails.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Coroutine

from blueflame.billing.usage import UsageReader
from blueflame.gateway.model_api.backoff import WaitTimes
from blueflame.gateway.model_api.body import BrokenMessage
from blueflame.gateway.model_api.client import AgentConnection, AgentDisconnected, ProviderCall
from blueflame.gateway.model_api.errors import format_ping

PLAIN = ("", "identity")
_GZIP_OR_ZLIB = 47


class AnswerCopy:
    """A decompressed copy of the answer: some providers compress although they were asked not to."""

    def __init__(self, encoding: str, reader: UsageReader | None, *, kept: bool) -> None:
        self._unpack = None if encoding in PLAIN else zlib.decompressobj(_GZIP_OR_ZLIB)
        self._readable = encoding in (*PLAIN, "gzip", "deflate")
        self._reader = reader
        if reader is not None:
            reader.readable = self._readable
        self._kept: list[bytes] | None = [] if kept else None

    def add(self, piece: bytes) -> None:
        if not self._readable:
            return
        try:
            data = piece if self._unpack is None else self._decompress(piece)
        except zlib.error:
            self._readable = False
            if self._reader is not None:
                self._reader.readable = False
            return
        if self._reader is not None:
            self._reader.feed(data)
        if self._kept is not None:
            self._kept.append(data)

    def _decompress(self, piece: bytes) -> bytes:
        """Decompress; an answer may consist of several compressed parts, one after the other."""
        assert self._unpack is not None
        data = self._unpack.decompress(piece)
        while self._unpack.eof and (rest := self._unpack.unused_data):
            self._unpack = zlib.decompressobj(_GZIP_OR_ZLIB)
            data += self._unpack.decompress(rest)
        return data

    def finish(self) -> None:
        if self._reader is not None:
            self._reader.finish()

    @property
    def whole(self) -> bytes:
        return b"".join(self._kept or ())


async def stream_to_agent(pieces: AsyncIterator[bytes], agent: AgentConnection, copy: AnswerCopy, idle: float) -> None:
    """Stream until the answer's proper end. Raises BrokenMessage for any other end and for a long silence."""
    now = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(idle) as quiet:
            async for piece in pieces:
                await agent.send_piece(piece)
                copy.add(piece)
                quiet.reschedule(now() + idle)
    except TimeoutError:
        if agent.is_blocked:  # it does not read: as if it had hung up
            agent.limit_remaining(0.0)
            raise AgentDisconnected from None
        raise BrokenMessage(f"idle for {idle:g} seconds") from None
    copy.finish()


EVENT_STREAM_HEADERS = (("content-type", b"text/event-stream"), ("cache-control", b"no-cache"))


async def wait_with_pings(
    waiting: Coroutine[object, object, None], call: ProviderCall, agent: AgentConnection, wait_times: WaitTimes
) -> None:
    """Wait, and send pings to an agent that asked for a stream; other answers have no place for pings."""
    work = asyncio.ensure_future(waiting)
    try:
        while not work.done():
            quiet = wait_times.ping if agent.begun else max(0.0, call.began + wait_times.first_ping - time.monotonic())
            await asyncio.wait((work,), timeout=quiet)
            if work.done():
                break
            if not agent.begun and not call.streams:
                await asyncio.wait((work,))
                break
            await _send_ping(call, agent)
        work.result()
    finally:
        work.cancel()


async def _send_ping(call: ProviderCall, agent: AgentConnection) -> None:
    if not agent.begun:
        agent.start_response(200, EVENT_STREAM_HEADERS, final=False)
    await agent.send_piece(format_ping(call.wire))
