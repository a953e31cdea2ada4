"""The Gemini API: generateContent and streamGenerateContent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
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

ERROR_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
SIGNATURE = "bG9vcGJhY2s="  # newer models want it back with each call


class GeminiDialect(ApiDialect):
    def parse_question(self, path: str, body: Mapping[str, Any], size: int) -> ModelQuestion:
        contents = body.get("contents", [])
        roles = [str(content.get("role", "user")) for content in contents]
        opening = contents[: count_before_first(roles, "model")]
        system = join_texts(body.get("systemInstruction") or body.get("system_instruction"))
        model, _, verb = path.rsplit("/", 1)[-1].partition(":")
        return ModelQuestion(
            api="gemini",
            model=model,
            system=system,
            user=join_texts(opening),
            turn=count_turns(roles, "model"),
            tools=tuple(_parse_tools(body)),
            stream=verb == "streamGenerateContent",
            size=size,
            everything=join_texts([system, contents]),
        )

    def build_body(self, reply: ModelReply) -> Mapping[str, Any]:
        return _build_response(reply, list(_build_parts(reply)), tokens=reply.tokens, finish="STOP")

    def build_stream(self, reply: ModelReply) -> Iterator[StreamPiece]:
        nothing = replace(reply, thinking="", text="", calls=())
        begun = reply.tokens._replace(output=0, thinking=0)
        for part in _build_parts(reply, small=True):
            yield StreamPiece(_format_event(_build_response(nothing, [part], tokens=begun)), begun)
        yield StreamPiece(
            _format_event(_build_response(nothing, [{"text": ""}], tokens=reply.tokens, finish="STOP")), reply.tokens
        )

    def build_error(self, status: int, message: str) -> Mapping[str, Any]:
        kind = ERROR_STATUSES.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
        return {"error": {"code": status, "message": message, "status": kind}}

    def format_stream_error(self, message: str) -> bytes:
        return _format_event(self.build_error(503, message))


def _parse_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for tool in body.get("tools") or ():
        for each in tool.get("functionDeclarations") or tool.get("function_declarations") or ():
            schema = each.get("parametersJsonSchema") or each.get("parameters") or {}
            yield OfferedTool(str(each.get("name")), keys=frozenset(schema.get("properties", ())))


def _format_event(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\r\n\r\n".encode()


def _build_response(
    reply: ModelReply, parts: list[dict[str, Any]], *, tokens: Tokens, finish: str | None = None
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "usageMetadata": _build_usage(tokens),
        "modelVersion": reply.model,
        "responseId": reply.id,
    }


def _build_parts(reply: ModelReply, *, small: bool = False) -> Iterator[dict[str, Any]]:
    for part in split_text(reply.thinking) if small else [reply.thinking] * bool(reply.thinking):
        yield {"text": part, "thought": True}
    for part in split_text(reply.text) if small else [reply.text] * bool(reply.text):
        yield {"text": part}
    for call in reply.calls:
        yield {"functionCall": {"name": call.name, "args": call.input}, "thoughtSignature": SIGNATURE}


def _build_usage(tokens: Tokens) -> dict[str, Any]:
    asked = tokens.input + tokens.cache_read + tokens.cache_write
    return {
        "promptTokenCount": asked,
        "candidatesTokenCount": tokens.output - tokens.thinking,
        "totalTokenCount": asked + tokens.output,
    } | {
        name: value
        for name, value in (("cachedContentTokenCount", tokens.cache_read), ("thoughtsTokenCount", tokens.thinking))
        if value
    }
