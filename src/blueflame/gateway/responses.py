"""Answers of the gateway itself. The reason phrase repeats the message: most clients show only that."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.connect import RequestContext
from blueflame.gateway.request import RequestHead, RequestRefused

TUNNEL_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
TLS_ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"  # the TLS alert access_denied, which clients show
PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
MAX_PHRASE_LENGTH = 400


def format_refusal(refused: RequestRefused) -> bytes:
    return format_json_response(refused.status, {"error": refused.words, "rule": refused.rule}, phrase=refused.words)


def format_json_response(
    status: int, content: Mapping[str, object], *, phrase: str = "", with_body: bool = True
) -> bytes:
    body = (json.dumps(content, ensure_ascii=True) + "\n").encode()
    line = f"HTTP/1.1 {status} {_clean_phrase(phrase or PHRASES.get(status, 'Error'))}"
    head = (line, "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
    return "\r\n".join((*head, "", "")).encode("ascii") + (body if with_body else b"")


def _clean_phrase(words: str) -> str:
    return "".join(letter if " " <= letter <= "~" else "?" for letter in words)[:MAX_PHRASE_LENGTH]


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
