"""`GET http://host/...`: unencrypted, so only for hosts listed with that port.

Exactly one request goes to the checked host, with a Host header made from the checked name.
"""

from __future__ import annotations

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.connect import RequestContext, connect_to_host, format_authority
from blueflame.gateway.options import HTTPS_PORT, GatewayOptions, find_rule
from blueflame.gateway.relay import CHUNK_BYTES, CountBytes, Stream, close_stream, relay_both_ways
from blueflame.gateway.request import parse_absolute_url, parse_authority
from blueflame.system.http import RequestHead, RequestRefused, build_malformed_refusal

HTTP_PORT = 80


async def forward_request(context: RequestContext, head: RequestHead, client: Stream, entry: AccessEntry) -> None:
    entry.kind = "http"
    scheme, authority, path = parse_absolute_url(head.target)
    if scheme != "http":
        raise build_malformed_refusal("only http:// can be requested in this way; use CONNECT for https")
    entry.host, entry.port = host, port = parse_authority(authority, port=HTTP_PORT)
    _check_http_allowed(context.options, host, port)
    if head.get_all("transfer-encoding"):
        raise RequestRefused(411, "malformed_request", "chunked bodies are not forwarded: send a Content-Length")
    size = head.read_content_length()
    rule, upstream = await connect_to_host(context, host, port)
    entry.set_decision("allow", rule, "")

    async def send(sent: CountBytes) -> None:
        request = _format_request(head, format_authority(host, port).removesuffix(f":{HTTP_PORT}"), path)
        sent(len(request))
        upstream.writer.write(request)
        await _send_body(client, upstream, size, sent)

    try:
        await relay_both_ways(client, upstream, entry, send, context.timeouts.idle)
    finally:
        await close_stream(upstream, context.timeouts)


def _check_http_allowed(options: GatewayOptions, host: str, port: int) -> None:
    if port == HTTPS_PORT or find_rule(options.rules, host, port) is None:
        raise RequestRefused(
            403,
            "plain_http",
            f"http://{host} is not allowed: only https goes out; use https://{host}, or a person can allow it:"
            f" sandbox.allowed_hosts: [{format_authority(host, port)}]",
        )


def _format_request(head: RequestHead, authority: str, path: str) -> bytes:
    kept = [f"{name}: {value}" for name, value in head.list_forwarded("host")]
    lines = (f"{head.method} {path} HTTP/1.1", f"host: {authority}", *kept, "connection: close", "", "")
    return "\r\n".join(lines).encode("latin-1")


async def _send_body(client: Stream, upstream: Stream, size: int, sent: CountBytes) -> None:
    """Send that many bytes and no more: what follows would be a request that was not checked."""
    while size and (data := await client.reader.read(min(size, CHUNK_BYTES))):
        size -= len(data)
        sent(len(data))
        upstream.writer.write(data)
        await upstream.writer.drain()
