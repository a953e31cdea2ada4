"""CONNECT host:port. At port 443 the client must then speak TLS to the very host it named, or no byte of it goes on."""

from __future__ import annotations

import asyncio

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.client_hello import HANDSHAKE, MAX_HELLO_BYTES, extract_client_hello, read_server_name
from blueflame.gateway.options import HTTPS_PORT, is_ip_literal, normalize_host
from blueflame.gateway.relay import CountBytes, Stream, close_stream, copy_until_eof, relay_both_ways
from blueflame.gateway.request import RequestHead, RequestRefused, parse_authority
from blueflame.gateway.request_context import RequestContext, connect_to_host
from blueflame.gateway.responses import TUNNEL_ESTABLISHED

MAX_OPENING_BYTES = 2 * MAX_HELLO_BYTES  # records cut into tiny pieces are mostly headers


class TunnelRefused(RequestRefused):
    """Refused after the tunnel was announced: HTTP can say no more."""


async def open_tunnel(counter: RequestContext, head: RequestHead, client: Stream, entry: AccessEntry) -> None:
    entry.kind = "connect"
    entry.host, entry.port = host, port = parse_authority(head.target, port=None)
    rule, upstream = await connect_to_host(counter, host, port)
    entry.set_decision("allow", rule, "")

    async def send(sent: CountBytes) -> None:
        first = await read_first_bytes(client.reader, host, port, counter.patience.hello)
        sent(len(first))
        upstream.writer.write(first)
        await copy_until_eof(client, upstream, sent)

    try:
        client.writer.write(TUNNEL_ESTABLISHED)
        await relay_both_ways(client, upstream, entry, send, counter.patience.idle)
    except RequestRefused as e:
        raise TunnelRefused(e.status, e.rule, e.words) from e
    finally:
        await close_stream(upstream, counter.patience)


async def read_first_bytes(reader: asyncio.StreamReader, host: str, port: int, patience: float) -> bytes:
    """What may be passed on first: at port 443 a TLS hello to this host; elsewhere a hello must be to it, too."""
    if port != HTTPS_PORT:
        begun = await reader.read(1 << 16)  # in some protocols the server speaks first: no hurry
        if begun[:1] != bytes([HANDSHAKE]):
            return begun
    else:
        begun = b""
    try:
        async with asyncio.timeout(patience):
            return await _read_checked_hello(reader, host, begun)
    except TimeoutError:
        raise RequestRefused(408, "not_tls", f"no TLS ClientHello came within {patience:g} seconds") from None


async def _read_checked_hello(reader: asyncio.StreamReader, host: str, begun: bytes) -> bytes:
    while (hello := extract_client_hello(begun)) is None:
        if len(begun) > MAX_OPENING_BYTES:
            raise RequestRefused(400, "not_tls", "the TLS ClientHello is cut into too many pieces")
        more = await reader.read(1 << 14)
        if not more:
            raise RequestRefused(400, "not_tls", "the connection ended within the TLS ClientHello")
        begun += more
    _check_server_name(read_server_name(hello), host)
    return begun


def _check_server_name(named: str | None, host: str) -> None:
    if named is None and is_ip_literal(host):
        return  # TLS has no way to name an address
    if named is None:
        raise RequestRefused(403, "sni_missing", f"the TLS hello names no server; it must name {host}")
    if normalize_host(named) != host:
        raise RequestRefused(403, "sni_mismatch", f"the tunnel is to {host}, but the TLS hello names {named[:80]!r}")
