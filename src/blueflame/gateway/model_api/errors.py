"""The gateway's own errors in the format of each API, so that a client shows our message."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blueflame.billing.sse import parse_json

ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
GEMINI = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
BUDGET_STATUS = 402
"""Ends claude 2.1.325 at once with our message as its result; it retries 400 six times and 401 for minutes (tested)."""


def describe_dearer_model(model: str, own: tuple[str, ...]) -> str:
    return (
        f"{model[:80]!r} is dearer than the models of this role ({', '.join(own)}), or its price is not known;"
        " a person can allow it in blueflame.yaml, with roles.<name>.model or a price under prices"
    )


def format_error_body(api: str, status: int, words: str) -> bytes:
    return json.dumps(_build_error(api, status, words)).encode()


def _build_error(api: str, status: int, words: str) -> Mapping[str, object]:
    if api == "gemini":
        return {"error": {"code": status, "message": words, "status": GEMINI.get(status, "UNAVAILABLE")}}
    if api == "openai":
        kind = "invalid_request_error" if status < 500 else "server_error"
        kind = "insufficient_quota" if status == BUDGET_STATUS else kind
        return {"error": {"message": words, "type": kind, "param": None, "code": f"blueflame_{status}"}}
    return {"type": "error", "error": {"type": ANTHROPIC.get(status, "api_error"), "message": words}}


PINGS = {"anthropic": b'event: ping\ndata: {"type": "ping"}\n\n'}
COMMENT = b": waiting for the model\n\n"
"""Ignored by clients of event streams; it keeps the connection alive."""


def format_ping(wire: str) -> bytes:
    return PINGS.get(wire, COMMENT)


def format_error_event(wire: str, status: int, body: bytes, words: str) -> bytes:
    """Format an error in a stream that has begun. `body` is the provider's error, if any."""
    api = wire.partition("-")[0]
    content = parse_json(body)
    if not isinstance(content, dict) or "error" not in content:
        content = dict(_build_error(api, status, words))
    if wire == "openai-responses":
        error = content["error"] if isinstance(content["error"], dict) else {"message": str(content["error"])}
        content = {"type": "error", "code": error.get("code"), "message": error.get("message"), "param": None}
    name = "event: error\n" if wire in ("anthropic", "openai-responses") else ""
    return f"{name}data: {json.dumps(content)}\n\n".encode()


def format_error_response(api: str, status: int, words: str) -> bytes:
    """Format a whole answer that tells clients not to retry: the gateway does the waiting."""
    body = format_error_body(api, status, words)
    head = (
        f"HTTP/1.1 {status} Refused by the gateway",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "X-Should-Retry: false",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
