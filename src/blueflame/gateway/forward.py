"""`GET http://host/...`: unencrypted, so only where the person has listed the host with that very port.

Exactly one request goes to the host that was checked, with a Host header made from the checked name.
"""

from __future__ import annotations

import re

from blueflame.gateway.access_log import Entry
from blueflame.gateway.connect import authority_of
from blueflame.gateway.options import HTTPS, Orders, find_rule
from blueflame.gateway.relay import CHUNK, Heard, Side, close, relay
from blueflame.gateway.request import Head, Refused, malformed, read_absolute, read_authority
from blueflame.gateway.request_context import Counter, reach

HTTP = 80
NOT_PASSED_ON = frozenset(
    ("connection", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection")
) | {"te", "trailer", "upgrade"}
_SIZE = re.compile(rb"[0-9]{1,12}")


async def forward(counter: Counter, head: Head, client: Side, entry: Entry) -> None:
    entry.kind = "http"
    scheme, authority, path = read_absolute(head.target)
    if scheme != "http":
        raise malformed("only http:// is asked for in this way; https is reached by CONNECT")
    entry.host, entry.port = host, port = read_authority(authority, port=HTTP)
    _check_listed(counter.orders, host, port)
    size = _body_size(head)
    rule, upstream = await reach(counter, host, port)
    entry.note("allow", rule, "")

    async def send(sent: Heard) -> None:
        request = _request(head, authority_of(host, port).removesuffix(f":{HTTP}"), path)
        sent(len(request))
        upstream.writer.write(request)
        await _send_body(client, upstream, size, sent)

    try:
        await relay(client, upstream, entry, send, counter.patience.idle)
    finally:
        await close(upstream, counter.patience)


def _check_listed(orders: Orders, host: str, port: int) -> None:
    if port == HTTPS or find_rule(orders.rules, host, port) is None:
        raise Refused(
            403,
            "plain_http",
            f"http://{host} is refused: only https goes out; use https://{host}, or a person can allow it:"
            f" sandbox.allowed_hosts: [{authority_of(host, port)}]",
        )


def _body_size(head: Head) -> int:
    if head.values("transfer-encoding"):
        raise Refused(411, "malformed_request", "send the body with a Content-Length; chunks are not passed on")
    sizes = head.values("content-length")
    if len(sizes) > 1 or not all(_SIZE.fullmatch(size) for size in sizes):
        raise malformed("the Content-Length is not one plain number")
    return int(sizes[0]) if sizes else 0


def _request(head: Head, authority: str, path: str) -> bytes:
    listed = {
        name.strip().lower() for value in head.values("connection") for name in value.decode("latin-1").split(",")
    }
    dropped = (NOT_PASSED_ON | listed) - {"content-length"}  # without it the body would be read as a second request
    kept = [f"{name}: {value.decode('latin-1')}" for name, value in head.headers if name not in dropped]
    lines = (f"{head.method} {path} HTTP/1.1", f"host: {authority}", *kept, "connection: close", "", "")
    return "\r\n".join(lines).encode("latin-1")


async def _send_body(client: Side, upstream: Side, size: int, sent: Heard) -> None:
    """That much and no more: what follows would be a request that nobody has checked."""
    while size and (data := await client.reader.read(min(size, CHUNK))):
        size -= len(data)
        sent(len(data))
        upstream.writer.write(data)
        await upstream.writer.drain()
