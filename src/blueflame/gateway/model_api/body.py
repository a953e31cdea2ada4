"""Bodies of HTTP/1.1 messages, piece by piece as they arrive: by length, in chunks, or until the connection ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from blueflame.gateway.relay import Stream
from blueflame.system.http import RequestHead, RequestRefused, build_malformed_refusal

PIECE_BYTES = 256 * 1024
MAX_CHUNK_LINE_BYTES = 16 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024  # of an agent's request
MAX_BODIES_BYTES = 2 * MAX_BODY_BYTES  # of all requests that are open at once
BODY_TIMEOUT = 60.0  # seconds without a byte
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")


class BrokenMessage(OSError):
    """Not valid HTTP/1.1, or ended in the middle."""


class BodyTooLarge(Exception):
    """A chunk was announced that exceeds the limit."""


async def iterate_body(stream: Stream, size: int | None, decoder: ChunkDecoder | None) -> AsyncIterator[bytes]:
    """Yield what each read adds. Without `size` and `decoder` the connection's end ends the body."""
    left = size
    while left != 0 and not (decoder and decoder.done):
        data = await stream.reader.read(PIECE_BYTES if left is None else min(left, PIECE_BYTES))
        if not data and (decoder or left):
            raise BrokenMessage("the connection ended in the middle of the body")
        if not data:
            return
        left = None if left is None else left - len(data)
        if piece := decoder.feed(data) if decoder else data:
            yield piece


class ChunkDecoder:
    """Remove the framing of chunks. All chunks of one read are one piece, and none waits for another."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._announced = 0
        self._left = 0  # bytes of the chunk that are still to come
        self._ends_line = False  # the line end after a chunk follows
        self._in_trailers = False
        self.rest = b""
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """Return what `data` adds to the body."""
        data, at, found = self.rest + data, 0, []
        while not self.done:
            if self._left:
                part = data[at : at + self._left]
                found.append(part)
                at += len(part)
                self._left -= len(part)
                self._ends_line = True
            end = data.find(b"\n", at)
            if self._left or end < 0:
                break
            self._read_line(data[at : end + 1])
            at = end + 1
        self.rest = data[at:]
        if not self.done and not self._left and len(self.rest) > MAX_CHUNK_LINE_BYTES:
            raise BrokenMessage("the line before a chunk is too long")
        return b"".join(found)

    def _read_line(self, line: bytes) -> None:
        if self._in_trailers:
            self.done = line == b"\r\n"
        elif self._ends_line:
            if line != b"\r\n":
                raise BrokenMessage("a chunk is longer than announced")
            self._ends_line = False
        else:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise BrokenMessage("the size of a chunk is malformed")
            self._left = int(size[1], 16)
            self._announced += self._left
            self._in_trailers = self._left == 0
            if self._max_bytes is not None and self._announced > self._max_bytes:
                raise BodyTooLarge


class BodyMemory:
    """The bodies of all open calls together: forty of the largest would fill the machine's memory."""

    def __init__(self, max_bytes: int = MAX_BODIES_BYTES) -> None:
        self._left = max_bytes

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes memory for one body; it is given back at the end."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left:
                raise RequestRefused(429, "too_many_bodies", "the requests that are open together are too large")
            self._left -= size
            taken += size

        try:
            yield take
        finally:
            self._left += taken


async def read_body(client: Stream, head: RequestHead, take: Callable[[int], None]) -> bytes:
    """Read the whole body of an agent's request, before any of it is sent on; `take` is called for each piece."""
    codings = [coding.lower() for coding in head.get_all("transfer-encoding")]
    if codings and (head.get_all("content-length") or codings != [b"chunked"]):
        raise build_malformed_refusal("the body must have either a Content-Length or Transfer-Encoding: chunked")
    size = head.read_content_length()
    if size > MAX_BODY_BYTES:
        raise _build_too_large()
    if (size or codings) and b"100-continue" in [value.lower() for value in head.get_all("expect")]:
        client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        return await _read_whole(client, size, ChunkDecoder(MAX_BODY_BYTES) if codings else None, take)
    except TimeoutError:
        raise RequestRefused(408, "too_slow", f"no more of the body arrived for {BODY_TIMEOUT:g} seconds") from None
    except BodyTooLarge:
        raise _build_too_large() from None
    except BrokenMessage as e:
        raise build_malformed_refusal(f"the body of the request is incomplete or malformed: {e}") from None


async def _read_whole(client: Stream, size: int, decoder: ChunkDecoder | None, take: Callable[[int], None]) -> bytes:
    body, now = bytearray(), asyncio.get_running_loop().time
    async with asyncio.timeout(BODY_TIMEOUT) as idle:
        async for piece in iterate_body(client, None if decoder else size, decoder):
            take(len(piece))
            body += piece
            idle.reschedule(now() + BODY_TIMEOUT)
    return bytes(body)


def _build_too_large() -> RequestRefused:
    return RequestRefused(413, "too_large", f"the request is larger than {MAX_BODY_BYTES // (1024 * 1024)} MB")
