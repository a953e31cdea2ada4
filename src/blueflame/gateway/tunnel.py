"""CONNECT host:port. At port 443 the client must start TLS with the host it named, or none of its bytes are forwarded.

Otherwise a front end shared by several sites would serve any of them through a tunnel that is allowed for one. The
ClientHello is read strictly: what is unusual is refused.
"""

from __future__ import annotations

import asyncio

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.connect import RequestContext, connect_to_host
from blueflame.gateway.options import HTTPS_PORT, is_ip_literal, normalize_host
from blueflame.gateway.relay import CountBytes, Stream, close_stream, copy_until_eof, relay_both_ways
from blueflame.gateway.request import parse_authority
from blueflame.gateway.responses import TUNNEL_ESTABLISHED
from blueflame.system.http import RequestHead, RequestRefused

HANDSHAKE, CLIENT_HELLO = 0x16, 0x01
MAX_RECORD_BYTES = 1 << 14
MAX_HELLO_BYTES = 1 << 15  # with post-quantum keys some two kilobytes; session tickets may add a few more
SERVER_NAME, HOST_NAME = 0, 0
ENCRYPTED_NAME_EXTENSIONS = {0xFE0D: "ECH", 0xFFCE: "ESNI"}  # the name that counts would be encrypted


class FieldReader:
    """Read fields from the front; refuse a field that does not fit."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_bytes(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise _build_refusal("a field is longer than what holds it")
        part = self._data[self._at : end]
        self._at = end
        return part

    def read_number(self, count: int) -> int:
        return int.from_bytes(self.read_bytes(count))

    def read_field(self, count: int) -> bytes:
        """Read a field that is preceded by its length in `count` bytes."""
        return self.read_bytes(self.read_number(count))

    @property
    def done(self) -> bool:
        return self._at == len(self._data)


def _build_refusal(what: str) -> RequestRefused:
    return RequestRefused(400, "not_tls", f"the connection does not begin with a proper TLS ClientHello: {what}")


def extract_client_hello(data: bytes) -> bytes | None:
    """Extract the ClientHello from the records at the front of `data`; None while it is incomplete."""
    hello = b""
    at = 0
    while True:
        _check_start(data[at:], b"")
        if len(data) < at + 5:
            return None
        size = int.from_bytes(data[at + 3 : at + 5])
        if not 0 < size <= MAX_RECORD_BYTES:
            raise _build_refusal(f"a record of {size} bytes")
        hello += data[at + 5 : at + 5 + size]
        _check_start(b"", hello)
        if len(data) < at + 5 + size:
            return None
        at += 5 + size
        if len(hello) >= 4 and len(hello) >= 4 + int.from_bytes(hello[1:4]):
            return _strip_handshake_header(hello)


def _check_start(record: bytes, hello: bytes) -> None:
    """Refuse as early as possible: do not wait for the rest of what is not a ClientHello."""
    if record and (
        record[0] != HANDSHAKE or (len(record) > 1 and record[1] != 3) or (len(record) > 2 and record[2] > 4)
    ):
        raise _build_refusal("it is not a TLS handshake record")
    if hello and hello[0] != CLIENT_HELLO:
        raise _build_refusal("the handshake does not begin with a hello")
    if len(hello) >= 4 and int.from_bytes(hello[1:4]) > MAX_HELLO_BYTES:
        raise _build_refusal("it is too long")


def _strip_handshake_header(hello: bytes) -> bytes:
    if len(hello) != 4 + int.from_bytes(hello[1:4]):
        raise _build_refusal("something follows the hello in its record")
    return hello[4:]


def read_server_name(hello: bytes) -> str | None:
    """Read the server name, None without one. Refuse a ClientHello that encrypts it."""
    cursor = FieldReader(hello)
    if cursor.read_number(2) != 0x0303 and hello[:2] not in (b"\3\1", b"\3\2"):
        raise _build_refusal("an unknown version")
    cursor.read_bytes(32)
    session, ciphers, compressions = cursor.read_field(1), cursor.read_field(2), cursor.read_field(1)
    if len(session) > 32 or len(ciphers) < 2 or len(ciphers) % 2 or not compressions:
        raise _build_refusal("its lists have odd lengths")
    extensions = _read_extensions(cursor.read_field(2)) if not cursor.done else {}
    if not cursor.done:
        raise _build_refusal("something follows its extensions")
    hidden = [name for kind, name in ENCRYPTED_NAME_EXTENSIONS.items() if kind in extensions]
    if hidden:
        raise RequestRefused(403, "sni_hidden", f"the TLS hello hides its server name ({hidden[0]}); switch that off")
    return _read_host_name(extensions[SERVER_NAME]) if SERVER_NAME in extensions else None


def _read_extensions(data: bytes) -> dict[int, bytes]:
    cursor = FieldReader(data)
    found: dict[int, bytes] = {}
    while not cursor.done:
        kind = cursor.read_number(2)
        if kind in found:
            raise _build_refusal("an extension occurs twice")
        found[kind] = cursor.read_field(2)
    return found


def _read_host_name(extension: bytes) -> str:
    outer = FieldReader(extension)
    names = FieldReader(outer.read_field(2))
    kind, name = names.read_number(1), names.read_field(2)
    if not outer.done or not names.done or kind != HOST_NAME or not name or not name.isascii():
        raise _build_refusal("its server name is not exactly one host name")
    return name.decode("ascii")


MAX_OPENING_BYTES = 2 * MAX_HELLO_BYTES  # records cut into tiny pieces are mostly headers


class TunnelRefused(RequestRefused):
    """Refused after the tunnel was established: too late for an HTTP answer."""


async def open_tunnel(context: RequestContext, head: RequestHead, client: Stream, entry: AccessEntry) -> None:
    entry.kind = "connect"
    entry.host, entry.port = host, port = parse_authority(head.target, port=None)
    rule, upstream = await connect_to_host(context, host, port)
    entry.set_decision("allow", rule, "")

    async def send(sent: CountBytes) -> None:
        first = await read_first_bytes(client.reader, host, port, context.timeouts.hello)
        sent(len(first))
        upstream.writer.write(first)
        await copy_until_eof(client, upstream, sent)

    try:
        client.writer.write(TUNNEL_ESTABLISHED)
        await relay_both_ways(client, upstream, entry, send, context.timeouts.idle)
    except RequestRefused as e:
        raise TunnelRefused(e.status, e.rule, e.words) from e
    finally:
        await close_stream(upstream, context.timeouts)


async def read_first_bytes(reader: asyncio.StreamReader, host: str, port: int, seconds: float) -> bytes:
    """Read the first bytes to forward: at port 443 a ClientHello for this host. At other ports, if it is a ClientHello,
    it must name this host, too."""
    if port != HTTPS_PORT:
        begun = await reader.read(1 << 16)  # without a timeout: in some protocols the server sends first
        if begun[:1] != bytes([HANDSHAKE]):
            return begun
    else:
        begun = b""
    try:
        async with asyncio.timeout(seconds):
            return await _read_checked_hello(reader, host, begun)
    except TimeoutError:
        raise RequestRefused(408, "not_tls", f"no TLS ClientHello arrived within {seconds:g} seconds") from None


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
