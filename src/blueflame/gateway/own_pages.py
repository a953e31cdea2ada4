"""The gateway's own pages, for agents that look where they are."""

from __future__ import annotations

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.request import RequestHead, RequestRefused
from blueflame.gateway.request_context import RequestContext
from blueflame.gateway.responses import format_json_response

NO_MODEL = (
    "no model is configured on this gateway, so there is nothing at this path;"
    " GET / lists the hosts that can be reached with CONNECT"
)
NOT_HERE = "there is nothing at this path; GET / lists what can be reached from here"


def build_status_page(counter: RequestContext, head: RequestHead, entry: AccessEntry) -> bytes:
    entry.kind = "local"
    if head.target.partition("?")[0] != "/":
        raise RequestRefused(404, "no_such_page", NO_MODEL if counter.model is None else NOT_HERE)
    if head.method not in ("GET", "HEAD"):
        raise RequestRefused(405, "no_such_page", "this page can only be read: use GET")
    entry.set_decision("allow", "page", "")
    hosts = [rule.text for rule in counter.orders.rules]
    content: dict[str, object] = {"gateway": "blueflame", "attempt": counter.orders.attempt, "hosts": hosts}
    if counter.orders.model is not None:
        content["models"] = [f"/{api}/" for api in counter.orders.model.apis]
    return format_json_response(200, content, with_body=head.method == "GET")
