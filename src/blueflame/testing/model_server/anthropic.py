"""The Anthropic Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.testing.model_server.dialect import (
    ApiDialect,
    ModelQuestion,
    ModelReply,
    OfferedTool,
    StreamPiece,
    Tokens,
    count_before_first,
    count_turns,
    join_texts,
    split_text,
)

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBsb29wYmFjayBtb2RlbA=="


class AnthropicDialect(ApiDialect):
    def parse_question(self, path: str, body: Mapping[str, Any], size: int) -> ModelQuestion:  # noqa: ARG002 (only Gemini has the model there)
        messages = body.get("messages", [])
        roles = [str(message.get("role")) for message in messages]
        opening = messages[: count_before_first(roles, "assistant")]
        asides = [message for message in messages if message.get("role") == "system"]
        return ModelQuestion(
            api="anthropic",
            model=str(body.get("model", "")),
            system=join_texts([body.get("system"), asides]),
            user=join_texts([message for message in opening if message.get("role") == "user"]),
            turn=count_turns(roles, "assistant"),
            tools=tuple(_parse_tool(tool) for tool in body.get("tools") or ()),
            stream=bool(body.get("stream")),
            size=size,
            everything=join_texts([body.get("system"), messages]),
        )

    def build_body(self, reply: ModelReply) -> Mapping[str, Any]:
        return _build_message(reply) | {
            "content": [block for block, _ in _build_blocks(reply)],
            "stop_reason": _pick_stop_reason(reply),
            "usage": _build_usage(reply.tokens),
        }

    def build_stream(self, reply: ModelReply) -> Iterator[StreamPiece]:
        begun = reply.tokens._replace(output=min(1, reply.tokens.output), thinking=0, web_search=0)
        yield StreamPiece(
            _format_event("message_start", message=_build_message(reply) | {"usage": _build_usage(begun)}), begun
        )
        yield StreamPiece(_format_event("ping"), begun)
        for index, (block, deltas) in enumerate(_build_blocks(reply)):
            yield StreamPiece(
                _format_event("content_block_start", index=index, content_block=_empty_block(block)), begun
            )
            for delta in deltas:
                yield StreamPiece(_format_event("content_block_delta", index=index, delta=delta), begun)
            yield StreamPiece(_format_event("content_block_stop", index=index), begun)
        delta = {"stop_reason": _pick_stop_reason(reply), "stop_sequence": None}
        yield StreamPiece(_format_event("message_delta", delta=delta, usage=_build_usage(reply.tokens)), reply.tokens)
        yield StreamPiece(_format_event("message_stop"), reply.tokens)

    def build_error(self, status: int, message: str) -> Mapping[str, Any]:
        kind = ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def format_stream_error(self, message: str) -> bytes:
        return _format_event("error", error={"type": "overloaded_error", "message": message})

    def format_ping(self) -> bytes:
        return _format_event("ping")

    def count_billed(self, tokens: Tokens) -> Tokens:
        return tokens


def _parse_tool(tool: Mapping[str, Any]) -> OfferedTool:
    return OfferedTool(
        str(tool.get("name", "")), keys=frozenset((tool.get("input_schema") or {}).get("properties", ()))
    )


def _format_event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()


def _build_message(reply: ModelReply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _pick_stop_reason(reply: ModelReply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _build_usage(tokens: Tokens) -> dict[str, Any]:
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


def _build_blocks(reply: ModelReply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Build each complete block, with the deltas that make it."""
    if reply.thinking:
        thought = {"type": "thinking", "thinking": reply.thinking, "signature": SIGNATURE}
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        deltas = [{"type": "thinking_delta", "thinking": part} for part in split_text(reply.thinking)]
        yield thought, [*deltas, signed]
    if reply.text or not reply.calls:
        deltas = [{"type": "text_delta", "text": part} for part in split_text(reply.text)]
        yield {"type": "text", "text": reply.text}, deltas
    for call in reply.calls:
        use = {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.input}
        yield use, [{"type": "input_json_delta", "partial_json": part} for part in split_text(json.dumps(call.input))]


def _empty_block(block: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"thinking": "", "signature": "", "text": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}
