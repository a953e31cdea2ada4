"""Read the whole body of a request before any of it goes out."""

from __future__ import annotations

import asyncio
import re

from blueflame.gateway.model_api.body import BodyTooLarge, BrokenMessage, ChunkDecoder, iterate_body
from blueflame.gateway.model_api.errors import CallDenied
from blueflame.gateway.relay import Stream
from blueflame.gateway.request import RequestHead

MAX_BODY_BYTES = 64 * 1024 * 1024
BODY_TIMEOUT = 60.0  # seconds without a byte
_SIZE = re.compile(rb"[0-9]{1,12}")


async def read_body(client: Stream, head: RequestHead) -> bytes:
    codings, sizes = head.get_all("transfer-encoding"), head.get_all("content-length")
    if codings and (sizes or [coding.lower() for coding in codings] != [b"chunked"]):
        raise CallDenied(
            400, "malformed_request", "the body must have either a Content-Length or Transfer-Encoding: chunked"
        )
    if len(sizes) > 1 or not all(_SIZE.fullmatch(size) for size in sizes):
        raise CallDenied(400, "malformed_request", "the Content-Length is not one plain number")
    size = int(sizes[0]) if sizes else 0
    if size > MAX_BODY_BYTES:
        raise _build_too_large()
    if (size or codings) and b"100-continue" in [value.lower() for value in head.get_all("expect")]:
        client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        return await _read_whole(client, size, ChunkDecoder(MAX_BODY_BYTES) if codings else None)
    except TimeoutError:
        raise CallDenied(408, "too_slow", f"no more of the body arrived for {BODY_TIMEOUT:g} seconds") from None
    except BodyTooLarge:
        raise _build_too_large() from None
    except BrokenMessage as e:
        raise CallDenied(400, "malformed_request", f"the body of the request is incomplete or malformed: {e}") from None


async def _read_whole(client: Stream, size: int, decoder: ChunkDecoder | None) -> bytes:
    body, now = bytearray(), asyncio.get_running_loop().time
    async with asyncio.timeout(BODY_TIMEOUT) as idle:
        async for piece in iterate_body(client, None if decoder else size, decoder):
            body += piece
            idle.reschedule(now() + BODY_TIMEOUT)
    return bytes(body)


def _build_too_large() -> CallDenied:
    return CallDenied(413, "too_large", f"the request is larger than {MAX_BODY_BYTES // (1024 * 1024)} MB")
