"""The body of a request, read as a whole before anything of it goes out: by its length, or chunk by chunk."""

from __future__ import annotations

import asyncio
import re

from blueflame.gateway.model_api.errors import CallDenied
from blueflame.gateway.relay import Stream
from blueflame.gateway.request import RequestHead

MAX_BODY_BYTES = 64 * 1024 * 1024
BODY_TIMEOUT = 60.0  # seconds without a byte of it
_SIZE = re.compile(rb"[0-9]{1,12}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")


async def read_body(client: Stream, head: RequestHead) -> bytes:
    codings, sizes = head.get_all("transfer-encoding"), head.get_all("content-length")
    if codings and (sizes or [coding.lower() for coding in codings] != [b"chunked"]):
        raise CallDenied(
            400, "malformed_request", "the body of the request comes neither as a length nor as chunks alone"
        )
    if len(sizes) > 1 or not all(_SIZE.fullmatch(size) for size in sizes):
        raise CallDenied(400, "malformed_request", "the Content-Length is not one plain number")
    size = int(sizes[0]) if sizes else 0
    _check_size(size)
    if (size or codings) and b"100-continue" in [value.lower() for value in head.get_all("expect")]:
        client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        return await _read_chunks(client.reader) if codings else await _read_exactly(client.reader, size)
    except TimeoutError:
        raise CallDenied(408, "too_slow", f"nothing of the body came for {BODY_TIMEOUT:g} seconds") from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise CallDenied(
            400, "malformed_request", "the body of the request is not complete, or its chunks are odd"
        ) from None


async def _read_exactly(reader: asyncio.StreamReader, size: int) -> bytes:
    parts = []
    while size:
        async with asyncio.timeout(BODY_TIMEOUT):
            part = await reader.read(min(size, 1 << 20))
        if not part:
            raise asyncio.IncompleteReadError(b"", size)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    whole = bytearray()
    while True:
        async with asyncio.timeout(BODY_TIMEOUT):
            found = _CHUNK.fullmatch(await reader.readuntil(b"\n"))
        if found is None:
            raise asyncio.IncompleteReadError(b"", None)
        size = int(found[1], 16)
        _check_size(len(whole) + size)
        if size == 0:
            break
        whole += await _read_exactly(reader, size)
        if await _read_exactly(reader, 2) != b"\r\n":
            raise asyncio.IncompleteReadError(b"", None)
    async with asyncio.timeout(BODY_TIMEOUT):
        while await reader.readuntil(b"\n") != b"\r\n":
            pass  # trailers are nobody's business
    return bytes(whole)


def _check_size(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise CallDenied(413, "too_large", f"the request is larger than {MAX_BODY_BYTES // (1024 * 1024)} MB")
