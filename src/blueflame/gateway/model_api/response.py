"""An answer of a provider over HTTP/1.1: its head, then its body piece by piece, the moment each piece is here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from blueflame.gateway.relay import Side

PIECE = 256 * 1024
MOST_HEADERS = 200
LONGEST_LINE = 16 * 1024  # around a chunk
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?")
_SIZE = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
NO_BODY = (204, 304)


class Broken(OSError):
    """The provider said something that is no HTTP, or stopped in the middle."""


class Closed(Broken):
    """Before the first byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`size` is None when the body tells its own end, in chunks or by the connection's end."""

    side: Side
    status: int
    headers: tuple[tuple[str, bytes], ...]
    size: int | None
    chunked: bool
    stays: bool  # the connection serves another request, once the body was read

    def value(self, name: str) -> str:
        """The first one, as text; empty without one."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    async def pieces(self) -> AsyncIterator[bytes]:
        """Until the body's proper end. Raises Broken for any other."""
        try:
            async for piece in self._pieces():
                yield piece
        except asyncio.IncompleteReadError:
            raise Broken("the answer broke off in the middle") from None
        except (asyncio.LimitOverrunError, ValueError):
            raise Broken("the answer's chunks are odd") from None

    def _pieces(self) -> AsyncIterator[bytes]:
        if self.chunked:
            return _in_chunks(self.side)
        return _all(self.side.reader) if self.size is None else _exactly(self.side.reader, self.size)


async def read_answer(side: Side, method: str) -> Answer:
    """Past any interim answer. Raises Broken, also for an end before the first byte."""
    while True:
        try:
            data = await side.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as e:
            if not e.partial:
                raise Closed("the connection was closed without an answer") from None
            raise Broken("the connection was closed in the middle of its answer's head") from None
        except asyncio.LimitOverrunError:
            raise Broken("the head of the answer is too large") from None
        minor, status, headers = _head(data)
        if status >= 200:
            return _answer(side, method, minor, status, headers)


def _head(data: bytes) -> tuple[bytes, int, tuple[tuple[str, bytes], ...]]:
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None or len(lines) > MOST_HEADERS:
        raise Broken("what came is no HTTP/1.1 answer")
    pairs = [line.partition(b":") for line in lines]
    headers = tuple((name.decode("latin-1").strip().lower(), value.strip()) for name, _, value in pairs)
    return found[1], int(found[2]), headers


def _answer(side: Side, method: str, minor: bytes, status: int, headers: tuple[tuple[str, bytes], ...]) -> Answer:
    def last(name: str) -> bytes:
        return next((value for key, value in reversed(headers) if key == name), b"")

    chunked = last("transfer-encoding").lower().endswith(b"chunked")
    length = last("content-length")
    size = int(length) if _SIZE.fullmatch(length) and not chunked else None
    if method == "HEAD" or status in NO_BODY:
        size, chunked = 0, False
    words = {word.strip() for word in last("connection").lower().split(b",")}
    stays = b"close" not in words and (minor == b"1" or b"keep-alive" in words) and (chunked or size is not None)
    return Answer(side=side, status=status, headers=headers, size=size, chunked=chunked, stays=stays)


async def _all(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(PIECE):
        yield piece


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        piece = await reader.read(min(size, PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        yield piece


async def _in_chunks(side: Side) -> AsyncIterator[bytes]:
    chunks = Chunks()
    while not chunks.done:
        data = await side.reader.read(PIECE)
        if not data:
            raise asyncio.IncompleteReadError(b"", None)
        piece = chunks.feed(data)
        if piece:
            yield piece
    if chunks.rest:
        side.writer.transport.abort()  # it says more than it was asked for: nobody asks it again


class Chunks:
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
        if not self.done and not self._left and len(self.rest) > LONGEST_LINE:
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


async def whole_body(answer: Answer, most: int) -> bytes:
    """Of an error: as much of it as may be of use."""
    found = bytearray()
    async for piece in answer.pieces():
        found += piece[: most - len(found)]
    return bytes(found)
