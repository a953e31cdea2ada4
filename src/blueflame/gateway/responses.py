"""Answers of the gateway itself."""

from __future__ import annotations

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.connect import RequestContext
from blueflame.system.http import RequestHead, RequestRefused, format_json_response

TUNNEL_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
TLS_ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"  # the TLS alert access_denied, which clients show
NO_MODEL = (
    "no model is configured on this gateway, so there is nothing at this path;"
    " GET / lists the hosts that can be reached with CONNECT"
)
NOT_HERE = "there is nothing at this path; GET / lists what can be reached from here"


def build_status_page(context: RequestContext, head: RequestHead, entry: AccessEntry) -> bytes:
    entry.kind = "local"
    if head.target.partition("?")[0] != "/":
        raise RequestRefused(404, "no_such_page", NO_MODEL if context.model is None else NOT_HERE)
    if head.method not in ("GET", "HEAD"):
        raise RequestRefused(405, "no_such_page", "this page is read-only: use GET")
    entry.set_decision("allow", "page", "")
    hosts = [rule.text for rule in context.options.rules]
    content: dict[str, object] = {"gateway": "blueflame", "attempt": context.options.attempt, "hosts": hosts}
    if context.options.model is not None:
        content["models"] = [f"/{api}/" for api in context.options.model.apis]
    return format_json_response(200, content, with_body=head.method == "GET")
