"""CONNECT host:port. At port 443 the client must then speak TLS to the very host it named, or no byte of it goes on."""

from __future__ import annotations

import asyncio

from blueflame.gateway.access_log import Entry
from blueflame.gateway.client_hello import HANDSHAKE, LONGEST_HELLO, hello_of, server_name
from blueflame.gateway.options import HTTPS, is_literal, read_host
from blueflame.gateway.relay import Heard, Side, close, pump, relay
from blueflame.gateway.request import Head, Refused, read_authority
from blueflame.gateway.request_context import Counter, reach
from blueflame.gateway.responses import ESTABLISHED

LONGEST_OPENING = 2 * LONGEST_HELLO  # records cut into tiny pieces are mostly headers


class Cut(Refused):
    """Refused after the tunnel was announced: HTTP can say no more."""


async def tunnel(counter: Counter, head: Head, client: Side, entry: Entry) -> None:
    entry.kind = "connect"
    entry.host, entry.port = host, port = read_authority(head.target, port=None)
    rule, upstream = await reach(counter, host, port)
    entry.note("allow", rule, "")

    async def send(sent: Heard) -> None:
        first = await first_words(client.reader, host, port, counter.patience.hello)
        sent(len(first))
        upstream.writer.write(first)
        await pump(client, upstream, sent)

    try:
        client.writer.write(ESTABLISHED)
        await relay(client, upstream, entry, send, counter.patience.idle)
    except Refused as e:
        raise Cut(e.status, e.rule, e.words) from e
    finally:
        await close(upstream, counter.patience)


async def first_words(reader: asyncio.StreamReader, host: str, port: int, patience: float) -> bytes:
    """What may be passed on first: at port 443 a TLS hello to this host; elsewhere a hello must be to it, too."""
    if port != HTTPS:
        begun = await reader.read(1 << 16)  # in some protocols the server speaks first: no hurry
        if begun[:1] != bytes([HANDSHAKE]):
            return begun
    else:
        begun = b""
    try:
        async with asyncio.timeout(patience):
            return await _checked_hello(reader, host, begun)
    except TimeoutError:
        raise Refused(408, "not_tls", f"no TLS ClientHello came within {patience:g} seconds") from None


async def _checked_hello(reader: asyncio.StreamReader, host: str, begun: bytes) -> bytes:
    while (hello := hello_of(begun)) is None:
        if len(begun) > LONGEST_OPENING:
            raise Refused(400, "not_tls", "the TLS ClientHello is cut into too many pieces")
        more = await reader.read(1 << 14)
        if not more:
            raise Refused(400, "not_tls", "the connection ended within the TLS ClientHello")
        begun += more
    _check_name(server_name(hello), host)
    return begun


def _check_name(named: str | None, host: str) -> None:
    if named is None and is_literal(host):
        return  # TLS has no way to name an address
    if named is None:
        raise Refused(403, "sni_missing", f"the TLS hello names no server; it must name {host}")
    if read_host(named) != host:
        raise Refused(403, "sni_mismatch", f"the tunnel is to {host}, but the TLS hello names {named[:80]!r}")
