"""An answer of a provider over HTTP/1.1: its head, then its body piece by piece, the moment each piece is here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from blueflame.warden.gateway.relay import Side

PIECE = 256 * 1024
MOST_HEADERS = 200
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
            return _in_chunks(self.side.reader)
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


async def _in_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        found = _CHUNK.fullmatch(await reader.readuntil(b"\n"))
        if found is None:
            raise ValueError("odd chunk")
        size = int(found[1], 16)
        if size == 0:
            break
        async for piece in _exactly(reader, size):
            yield piece
        if await reader.readexactly(2) != b"\r\n":
            raise ValueError("odd chunk")
    while await reader.readuntil(b"\n") not in (b"\r\n", b"\n"):
        pass  # trailers


async def whole_body(answer: Answer, most: int) -> bytes:
    """Of an error: as much of it as may be of use."""
    found = bytearray()
    async for piece in answer.pieces():
        found += piece[: most - len(found)]
    return bytes(found)
