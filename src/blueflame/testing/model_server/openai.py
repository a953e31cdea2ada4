"""The OpenAI APIs: Responses and Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blueflame.testing.model_server.dialect import (
    ApiDialect,
    ModelQuestion,
    ModelReply,
    ModelToolCall,
    OfferedTool,
    StreamPiece,
    Tokens,
    count_before_first,
    count_turns,
    join_texts,
    split_text,
)

ERROR_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
SYSTEM_ROLES = {"system", "developer"}
MODEL_ITEMS = {"function_call", "custom_tool_call", "local_shell_call", "reasoning"}


def _find_role(item: Mapping[str, Any]) -> str:
    """Find whose item it is: calls and reasoning are the model's."""
    if item.get("type") in MODEL_ITEMS:
        return "assistant"
    role = str(item.get("role", "user"))
    return "system" if role in SYSTEM_ROLES else role


def _join_role_texts(items: Sequence[Mapping[str, Any]], role: str) -> str:
    return join_texts([item.get("content") for item in items if _find_role(item) == role])


def _parse_question(
    body: Mapping[str, Any], items: Sequence[Mapping[str, Any]], tools: tuple[OfferedTool, ...], *, size: int, api: str
) -> ModelQuestion:
    roles = [_find_role(item) for item in items]
    opening = items[: count_before_first(roles, "assistant")]
    system = join_texts([body.get("instructions"), _join_role_texts(items, "system")])
    options = body.get("stream_options") or {}
    return ModelQuestion(
        api=api,
        model=str(body.get("model", "")),
        system=system,
        user=_join_role_texts(opening, "user"),
        turn=count_turns(roles, "assistant"),
        tools=tools,
        stream=bool(body.get("stream")),
        size=size,
        everything=join_texts([system, list(items)]),
        wants_usage=bool(options.get("include_usage")),
    )


def _format_arguments(call: ModelToolCall) -> str:
    return call.input if isinstance(call.input, str) else json.dumps(call.input)


class OpenAiDialect(ApiDialect):
    """What both OpenAI APIs have in common."""

    def build_error(self, status: int, message: str) -> Mapping[str, Any]:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": ERROR_CODES.get(status)}}


class ResponsesDialect(OpenAiDialect):
    def parse_question(self, path: str, body: Mapping[str, Any], size: int) -> ModelQuestion:  # noqa: ARG002 (only Gemini has the model there)
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = tuple(
            OfferedTool(
                str(tool.get("name") or tool.get("type")),
                freeform=tool.get("type") == "custom",
                keys=frozenset((tool.get("parameters") or {}).get("properties", ())),
            )
            for tool in body.get("tools") or ()
        )
        return _parse_question(body, items, tools, size=size, api="openai")

    def build_body(self, reply: ModelReply) -> Mapping[str, Any]:
        return self._build_response(
            reply, "completed", output=list(self._build_items(reply)), usage=self._build_usage(reply.tokens)
        )

    def build_stream(self, reply: ModelReply) -> Iterator[StreamPiece]:
        for number, event in enumerate(self._build_events(reply)):
            reported = reply.tokens if event["type"] == "response.completed" else Tokens()
            data = json.dumps(event | {"sequence_number": number})
            yield StreamPiece(f"event: {event['type']}\ndata: {data}\n\n".encode(), reported)

    def format_stream_error(self, message: str) -> bytes:
        response = {"id": "resp_broken", "status": "failed", "error": {"code": "server_error", "message": message}}
        data = json.dumps({"type": "response.failed", "response": response})
        return f"event: response.failed\ndata: {data}\n\n".encode()

    def _build_events(self, reply: ModelReply) -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": self._build_response(reply, "in_progress")}
        yield {"type": "response.in_progress", "response": self._build_response(reply, "in_progress")}
        for index, item in enumerate(self._build_items(reply)):
            place = {"output_index": index, "item_id": item["id"]}
            begun = item | {"status": "in_progress"} | _empty_fields(item)
            yield {"type": "response.output_item.added", "output_index": index, "item": begun}
            yield from _build_item_events(item, place)
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": self.build_body(reply)}

    def _build_response(self, reply: ModelReply, status: str, **more: object) -> dict[str, Any]:
        return {
            "id": f"resp_{reply.id}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": reply.model,
            "output": [],
            "parallel_tool_calls": True,
            "usage": None,
        } | more

    def _build_items(self, reply: ModelReply) -> Iterator[dict[str, Any]]:
        if reply.thinking:
            summary = [{"type": "summary_text", "text": reply.thinking}]
            yield {"id": f"rs_{reply.id}", "type": "reasoning", "summary": summary, "status": "completed"}
        if reply.text or not reply.calls:
            content = [{"type": "output_text", "text": reply.text, "annotations": []}]
            yield {
                "id": f"msg_{reply.id}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        for call in reply.calls:
            *space, name = call.name.rsplit(".", 1)  # Codex offers tools of an MCP server in a namespace
            common = {"call_id": f"call_{call.id}", "name": name, "status": "completed"}
            common |= {"namespace": space[0]} if space else {}
            if isinstance(call.input, str):
                yield {"id": f"ctc_{call.id}", "type": "custom_tool_call", "input": call.input} | common
            else:
                yield {"id": f"fc_{call.id}", "type": "function_call", "arguments": _format_arguments(call)} | common

    def _build_usage(self, tokens: Tokens) -> dict[str, Any]:
        asked = tokens.input + tokens.cache_read + tokens.cache_write
        return {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": tokens.cache_read},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.thinking},
            "total_tokens": asked + tokens.output,
        }


def _empty_fields(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in {"content": [], "arguments": "", "input": "", "summary": []}.items() if key in item
    }


def _build_item_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "message":
        yield from _build_text_events(item["content"][0], {**place, "content_index": 0})
    elif item["type"] == "reasoning":
        summary = {**place, "summary_index": 0}
        for part in split_text(item["summary"][0]["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **summary, "delta": part}
    else:
        kind = "function_call_arguments" if item["type"] == "function_call" else "custom_tool_call_input"
        name = "arguments" if item["type"] == "function_call" else "input"
        for part in split_text(item[name]):
            yield {"type": f"response.{kind}.delta", **place, "delta": part}
        yield {"type": f"response.{kind}.done", **place, name: item[name]}


def _build_text_events(part: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for delta in split_text(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": delta}
    yield {"type": "response.output_text.done", **place, "text": part["text"]}
    yield {"type": "response.content_part.done", **place, "part": part}


class ChatDialect(OpenAiDialect):
    def parse_question(self, path: str, body: Mapping[str, Any], size: int) -> ModelQuestion:  # noqa: ARG002 (only Gemini has the model there)
        functions = [tool.get("function") or {} for tool in body.get("tools") or ()]
        tools = tuple(
            OfferedTool(str(each.get("name")), keys=frozenset((each.get("parameters") or {}).get("properties", ())))
            for each in functions
        )
        return _parse_question(body, body.get("messages", []), tools, size=size, api="openai-chat")

    def build_body(self, reply: ModelReply) -> Mapping[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [_build_chat_call(call, _format_arguments(call)) for call in reply.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _pick_finish_reason(reply)}
        return _build_completion(reply, "chat.completion") | {
            "choices": [choice],
            "usage": _build_chat_usage(reply.tokens),
        }

    def build_stream(self, reply: ModelReply) -> Iterator[StreamPiece]:
        nothing = Tokens()
        for delta in _build_chat_deltas(reply):
            yield StreamPiece(_format_chunk(reply, delta), nothing)
        yield StreamPiece(_format_chunk(reply, {}, finish=_pick_finish_reason(reply)), nothing)
        if reply.wants_usage:
            yield StreamPiece(
                _format_event(_build_completion(reply) | {"choices": [], "usage": _build_chat_usage(reply.tokens)}),
                reply.tokens,
            )
        yield StreamPiece(b"data: [DONE]\n\n", reply.tokens)

    def format_stream_error(self, message: str) -> bytes:
        return _format_event(self.build_error(500, message))


def _format_event(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


def _build_completion(reply: ModelReply, kind: str = "chat.completion.chunk") -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": 0, "model": reply.model}


def _format_chunk(reply: ModelReply, delta: Mapping[str, Any], *, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    usage = {"usage": None} if reply.wants_usage else {}
    return _format_event(_build_completion(reply) | {"choices": [choice]} | usage)


def _build_chat_deltas(reply: ModelReply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for part in split_text(reply.thinking):
        yield {"reasoning_content": part}
    for part in split_text(reply.text):
        yield {"content": part}
    for index, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": index} | _build_chat_call(call, "")]}
        for part in split_text(_format_arguments(call)):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _build_chat_call(call: ModelToolCall, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{call.id}", "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _pick_finish_reason(reply: ModelReply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _build_chat_usage(tokens: Tokens) -> dict[str, Any]:
    asked = tokens.input + tokens.cache_read + tokens.cache_write
    return {
        "prompt_tokens": asked,
        "completion_tokens": tokens.output,
        "total_tokens": asked + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.thinking},
    }
