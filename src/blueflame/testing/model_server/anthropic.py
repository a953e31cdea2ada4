"""Anthropic Messages, as the loopback model speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.testing.model_server.dialect import (
    Offered,
    Piece,
    Question,
    Reply,
    Tokens,
    ToolCall,
    before_first,
    joined,
    pieces,
    speeches,
)

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBsb29wYmFjayBtb2RlbA=="


class Anthropic:
    def question(self, path: str, query: Mapping[str, str], body: Mapping[str, Any], size: int) -> Question:  # noqa: ARG002 (other apis need them)
        messages = body.get("messages", [])
        roles = [str(message.get("role")) for message in messages]
        opening = messages[: before_first(roles, "assistant")]
        asides = [message for message in messages if message.get("role") == "system"]
        return Question(
            api="anthropic",
            model=str(body.get("model", "")),
            system=joined([body.get("system"), asides]),
            user=joined([message for message in opening if message.get("role") == "user"]),
            turn=speeches(roles, "assistant"),
            tools=tuple(_offered(tool) for tool in body.get("tools") or ()),
            stream=bool(body.get("stream")),
            size=size,
            everything=joined([body.get("system"), messages]),
        )

    def whole(self, reply: Reply) -> Mapping[str, Any]:
        return _message(reply) | {
            "content": [block for block, _ in _blocks(reply)],
            "stop_reason": _stop(reply),
            "usage": _usage(reply.tokens),
        }

    def stream(self, reply: Reply) -> Iterator[Piece]:
        begun = reply.tokens._replace(output=min(1, reply.tokens.output), thinking=0, web_search=0)
        yield Piece(_event("message_start", message=_message(reply) | {"usage": _usage(begun)}), begun)
        yield Piece(_event("ping"), begun)
        for index, (block, deltas) in enumerate(_blocks(reply)):
            yield Piece(_event("content_block_start", index=index, content_block=_emptied(block)), begun)
            for delta in deltas:
                yield Piece(_event("content_block_delta", index=index, delta=delta), begun)
            yield Piece(_event("content_block_stop", index=index), begun)
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        yield Piece(_event("message_delta", delta=delta, usage=_usage(reply.tokens)), reply.tokens)
        yield Piece(_event("message_stop"), reply.tokens)

    def error(self, status: int, words: str) -> Mapping[str, Any]:
        kind = ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": words}}

    def broken(self, words: str) -> bytes:
        return _event("error", error={"type": "overloaded_error", "message": words})

    def ping(self) -> bytes:
        return _event("ping")

    def billed(self, tokens: Tokens) -> Tokens:
        return tokens


def _offered(tool: Mapping[str, Any]) -> Offered:
    return Offered(str(tool.get("name", "")), keys=frozenset((tool.get("input_schema") or {}).get("properties", ())))


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()


def _message(reply: Reply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write - tokens.cache_write_1h,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        },
        "output_tokens": tokens.output,
        "service_tier": "standard",
    } | ({"server_tool_use": {"web_search_requests": tokens.web_search}} if tokens.web_search else {})


def _blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each block as it is in the end, and the deltas that make it."""
    if reply.thinking:
        thought = {"type": "thinking", "thinking": reply.thinking, "signature": SIGNATURE}
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        said = [{"type": "thinking_delta", "thinking": part} for part in pieces(reply.thinking)]
        yield thought, [*said, signed]
    if reply.text or not reply.calls:
        deltas = [{"type": "text_delta", "text": part} for part in pieces(reply.text)]
        yield {"type": "text", "text": reply.text}, deltas
    for call in reply.calls:
        yield _call(call), [{"type": "input_json_delta", "partial_json": part} for part in pieces(_json(call))]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.input}


def _json(call: ToolCall) -> str:
    return json.dumps(call.input)


def _emptied(block: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"thinking": "", "signature": "", "text": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}
