"""A provider's answer over HTTP/1.1: its head, then its body piece by piece as it arrives."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from blueflame.gateway.model_api.body import BrokenMessage, ChunkDecoder, iterate_body
from blueflame.gateway.relay import Stream
from blueflame.lazy_dataclass import dataclass

MAX_HEADERS = 200
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?")
_SIZE = re.compile(rb"[0-9]{1,15}")
NO_BODY = (204, 304)


class ClosedBeforeAnswer(BrokenMessage):
    """The connection was closed before the first byte of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """`size` is None when the body ends with its last chunk or with the connection."""

    stream: Stream
    status: int
    headers: tuple[tuple[str, bytes], ...]
    size: int | None
    chunked: bool
    reusable: bool  # the connection can serve another request once the body was read

    def get_header(self, name: str) -> str:
        """Return the first value as text, or an empty text."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    async def iterate_body(self) -> AsyncIterator[bytes]:
        """Yield the body until its proper end. Raises BrokenMessage for any other end."""
        decoder = ChunkDecoder() if self.chunked else None
        async for piece in iterate_body(self.stream, self.size, decoder):
            yield piece
        if decoder is not None and decoder.rest:
            self.stream.writer.transport.abort()  # bytes after the answer: the connection is not reused


async def read_answer(stream: Stream, method: str) -> ProviderAnswer:
    """Read the head of the final answer. Raises BrokenMessage, also for an end before the first byte."""
    while True:
        try:
            data = await stream.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as e:
            if not e.partial:
                raise ClosedBeforeAnswer("the connection was closed without an answer") from None
            raise BrokenMessage("the connection was closed in the middle of the answer's head") from None
        except asyncio.LimitOverrunError:
            raise BrokenMessage("the head of the answer is too large") from None
        minor, status, headers = _parse_head(data)
        if status >= 200:
            return _build_answer(stream, method, minor, status, headers)


def _parse_head(data: bytes) -> tuple[bytes, int, tuple[tuple[str, bytes], ...]]:
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None or len(lines) > MAX_HEADERS:
        raise BrokenMessage("not an HTTP/1.1 answer")
    pairs = [line.partition(b":") for line in lines]
    headers = tuple((name.decode("latin-1").strip().lower(), value.strip()) for name, _, value in pairs)
    return found[1], int(found[2]), headers


def _build_answer(
    stream: Stream, method: str, minor: bytes, status: int, headers: tuple[tuple[str, bytes], ...]
) -> ProviderAnswer:
    def last(name: str) -> bytes:
        return next((value for key, value in reversed(headers) if key == name), b"")

    chunked = last("transfer-encoding").lower().endswith(b"chunked")
    length = last("content-length")
    size = int(length) if _SIZE.fullmatch(length) and not chunked else None
    if method == "HEAD" or status in NO_BODY:
        size, chunked = 0, False
    words = {word.strip() for word in last("connection").lower().split(b",")}
    reusable = b"close" not in words and (minor == b"1" or b"keep-alive" in words) and (chunked or size is not None)
    return ProviderAnswer(stream=stream, status=status, headers=headers, size=size, chunked=chunked, reusable=reusable)


async def read_whole_body(answer: ProviderAnswer, most: int) -> bytes:
    """Read the body of an error and return up to `most` bytes of it."""
    found = bytearray()
    async for piece in answer.iterate_body():
        found += piece[: most - len(found)]
    return bytes(found)
