"""The body of a request, read as a whole before anything of it goes out: by its length, or chunk by chunk."""

from __future__ import annotations

import asyncio
import re

from blueflame.gateway.model_api.errors import Denied
from blueflame.gateway.relay import Side
from blueflame.gateway.request import Head

LARGEST_BODY = 64 * 1024 * 1024
PATIENCE = 60.0  # seconds without a byte of it
_SIZE = re.compile(rb"[0-9]{1,12}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")


async def read_body(client: Side, head: Head) -> bytes:
    codings, sizes = head.values("transfer-encoding"), head.values("content-length")
    if codings and (sizes or [coding.lower() for coding in codings] != [b"chunked"]):
        raise Denied(400, "malformed_request", "the body of the request comes neither as a length nor as chunks alone")
    if len(sizes) > 1 or not all(_SIZE.fullmatch(size) for size in sizes):
        raise Denied(400, "malformed_request", "the Content-Length is not one plain number")
    size = int(sizes[0]) if sizes else 0
    _check_size(size)
    if (size or codings) and b"100-continue" in [value.lower() for value in head.values("expect")]:
        client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        return await _chunks(client.reader) if codings else await _exactly(client.reader, size)
    except TimeoutError:
        raise Denied(408, "too_slow", f"nothing of the body came for {PATIENCE:g} seconds") from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise Denied(
            400, "malformed_request", "the body of the request is not complete, or its chunks are odd"
        ) from None


async def _exactly(reader: asyncio.StreamReader, size: int) -> bytes:
    parts = []
    while size:
        async with asyncio.timeout(PATIENCE):
            part = await reader.read(min(size, 1 << 20))
        if not part:
            raise asyncio.IncompleteReadError(b"", size)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    whole = bytearray()
    while True:
        async with asyncio.timeout(PATIENCE):
            found = _CHUNK.fullmatch(await reader.readuntil(b"\n"))
        if found is None:
            raise asyncio.IncompleteReadError(b"", None)
        size = int(found[1], 16)
        _check_size(len(whole) + size)
        if size == 0:
            break
        whole += await _exactly(reader, size)
        if await _exactly(reader, 2) != b"\r\n":
            raise asyncio.IncompleteReadError(b"", None)
    async with asyncio.timeout(PATIENCE):
        while await reader.readuntil(b"\n") != b"\r\n":
            pass  # trailers are nobody's business
    return bytes(whole)


def _check_size(size: int) -> None:
    if size > LARGEST_BODY:
        raise Denied(413, "too_large", f"the request is larger than {LARGEST_BODY // (1024 * 1024)} MB")
