"""An answer of a provider over HTTP/1.1: its head, then its body piece by piece, the moment each piece is here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from blueflame.gateway.relay import Stream

PIECE_BYTES = 256 * 1024
MAX_HEADERS = 200
MAX_CHUNK_LINE_BYTES = 16 * 1024  # around a chunk
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?")
_SIZE = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
NO_BODY = (204, 304)


class BrokenAnswer(OSError):
    """The provider said something that is no HTTP, or stopped in the middle."""


class ClosedBeforeAnswer(BrokenAnswer):
    """Before the first byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """`size` is None when the body tells its own end, in chunks or by the connection's end."""

    side: Stream
    status: int
    headers: tuple[tuple[str, bytes], ...]
    size: int | None
    chunked: bool
    stays: bool  # the connection serves another request, once the body was read

    def get_header(self, name: str) -> str:
        """The first one, as text; empty without one."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    async def iterate_body(self) -> AsyncIterator[bytes]:
        """Until the body's proper end. Raises Broken for any other."""
        try:
            async for piece in self._pieces():
                yield piece
        except asyncio.IncompleteReadError:
            raise BrokenAnswer("the answer broke off in the middle") from None
        except (asyncio.LimitOverrunError, ValueError):
            raise BrokenAnswer("the answer's chunks are odd") from None

    def _pieces(self) -> AsyncIterator[bytes]:
        if self.chunked:
            return _read_chunked(self.side)
        return _read_to_end(self.side.reader) if self.size is None else _read_exactly(self.side.reader, self.size)


async def read_answer(side: Stream, method: str) -> ProviderAnswer:
    """Past any interim answer. Raises Broken, also for an end before the first byte."""
    while True:
        try:
            data = await side.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as e:
            if not e.partial:
                raise ClosedBeforeAnswer("the connection was closed without an answer") from None
            raise BrokenAnswer("the connection was closed in the middle of its answer's head") from None
        except asyncio.LimitOverrunError:
            raise BrokenAnswer("the head of the answer is too large") from None
        minor, status, headers = _parse_head(data)
        if status >= 200:
            return _build_answer(side, method, minor, status, headers)


def _parse_head(data: bytes) -> tuple[bytes, int, tuple[tuple[str, bytes], ...]]:
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None or len(lines) > MAX_HEADERS:
        raise BrokenAnswer("what came is no HTTP/1.1 answer")
    pairs = [line.partition(b":") for line in lines]
    headers = tuple((name.decode("latin-1").strip().lower(), value.strip()) for name, _, value in pairs)
    return found[1], int(found[2]), headers


def _build_answer(
    side: Stream, method: str, minor: bytes, status: int, headers: tuple[tuple[str, bytes], ...]
) -> ProviderAnswer:
    def last(name: str) -> bytes:
        return next((value for key, value in reversed(headers) if key == name), b"")

    chunked = last("transfer-encoding").lower().endswith(b"chunked")
    length = last("content-length")
    size = int(length) if _SIZE.fullmatch(length) and not chunked else None
    if method == "HEAD" or status in NO_BODY:
        size, chunked = 0, False
    words = {word.strip() for word in last("connection").lower().split(b",")}
    stays = b"close" not in words and (minor == b"1" or b"keep-alive" in words) and (chunked or size is not None)
    return ProviderAnswer(side=side, status=status, headers=headers, size=size, chunked=chunked, stays=stays)


async def _read_to_end(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(PIECE_BYTES):
        yield piece


async def _read_exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        piece = await reader.read(min(size, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        yield piece


async def _read_chunked(side: Stream) -> AsyncIterator[bytes]:
    chunks = ChunkDecoder()
    while not chunks.done:
        data = await side.reader.read(PIECE_BYTES)
        if not data:
            raise asyncio.IncompleteReadError(b"", None)
        piece = chunks.feed(data)
        if piece:
            yield piece
    if chunks.rest:
        side.writer.transport.abort()  # it says more than it was asked for: nobody asks it again


class ChunkDecoder:
    """Takes the frames off: all chunks that have come at once are one piece, and none waits for another."""

    def __init__(self) -> None:
        self._left = 0  # bytes of the chunk that are still to come
        self._ends_line = False  # what follows is the line end after a chunk
        self._trails = False
        self.rest = b""
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """What `data` adds to the body. Raises ValueError for what is no chunk."""
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
            self._take_line(data[at : end + 1])
            at = end + 1
        self.rest = data[at:]
        if not self.done and not self._left and len(self.rest) > MAX_CHUNK_LINE_BYTES:
            raise ValueError("odd chunk")
        return b"".join(found)

    def _take_line(self, line: bytes) -> None:
        if self._trails:
            self.done = line in (b"\r\n", b"\n")
        elif self._ends_line:
            if line != b"\r\n":
                raise ValueError("odd chunk")
            self._ends_line = False
        else:
            size = _CHUNK.fullmatch(line)
            if size is None:
                raise ValueError("odd chunk")
            self._left = int(size[1], 16)
            self._trails = self._left == 0


async def read_whole_body(answer: ProviderAnswer, most: int) -> bytes:
    """Of an error: as much of it as may be of use."""
    found = bytearray()
    async for piece in answer.iterate_body():
        found += piece[: most - len(found)]
    return bytes(found)
