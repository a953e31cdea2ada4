"""Join the deltas of each block of a streamed answer, so that a text cut in two is whole again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

EventPair = list[Any]  # [name of the event, its data]


class TextPiece(NamedTuple):
    """A delta: the key of its text, and the field that holds it. `opens`: its event has other fields and is kept."""

    key: Hashable
    holder: dict[str, Any]
    field: str
    opens: bool = False


def merge_pieces(api: str, pairs: list[EventPair]) -> list[EventPair]:
    """Append each delta to the first of its text; drop pings."""
    find = PIECE_FINDERS[api]
    kept: list[EventPair] = []
    first: dict[Hashable, tuple[dict[str, Any], str]] = {}
    for name, data in pairs:
        if not isinstance(data, dict):
            kept.append([name, data])
            continue
        if data.get("type") == "ping":
            continue
        data.pop("obfuscation", None)  # noise that hides how long a text is
        piece = find(data)
        if piece is not None and piece.key in first and not piece.opens:
            holder, field = first[piece.key]
            holder[field] += piece.holder[piece.field]
            _copy_usage(kept[-1][1], data)
            continue
        if api == "gemini":  # its texts have no index: only consecutive ones belong together
            first.clear()
        if piece is not None:
            first[piece.key] = (piece.holder, piece.field)
        kept.append([name, data])
    return kept


def _copy_usage(into: object, data: Mapping[str, Any]) -> None:
    """Keep Gemini's last count: each chunk has the count so far."""
    if "usageMetadata" in data and isinstance(into, dict):
        into["usageMetadata"] = data["usageMetadata"]


def _find_anthropic_piece(data: dict[str, Any]) -> TextPiece | None:
    delta = data.get("delta")
    if data.get("type") != "content_block_delta" or not isinstance(delta, dict):
        return None
    fields = [name for name, value in delta.items() if name != "type" and isinstance(value, str)]
    if len(fields) != 1:
        return None
    return TextPiece((data.get("index"), delta.get("type")), delta, fields[0])


def _find_responses_piece(data: dict[str, Any]) -> TextPiece | None:
    kind = data.get("type")
    if not isinstance(kind, str) or not kind.endswith(".delta") or not isinstance(data.get("delta"), str):
        return None
    place = tuple(str(data.get(name)) for name in ("item_id", "output_index", "content_index", "summary_index"))
    return TextPiece((kind, place), data, "delta")


def _find_chat_piece(data: dict[str, Any]) -> TextPiece | None:
    choices = data.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or data.get("usage") or not isinstance(choices[0], dict):
        return None
    delta, n = choices[0].get("delta"), choices[0].get("index", 0)
    if not isinstance(delta, dict) or choices[0].get("finish_reason"):
        return None
    present = {name: value for name, value in delta.items() if value is not None and name != "role"}
    calls = present.get("tool_calls")
    if isinstance(calls, list) and len(present) == 1 and len(calls) == 1 and isinstance(calls[0], dict):
        return _find_chat_call_piece(n, calls[0])
    fields = [name for name, value in present.items() if isinstance(value, str)]
    return TextPiece((n, fields[0]), delta, fields[0]) if len(present) == 1 and fields else None


def _find_chat_call_piece(n: Hashable, call: dict[str, Any]) -> TextPiece | None:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return None
    return TextPiece((n, "call", call.get("index", 0)), function, "arguments", opens=bool(call.get("id")))


def _find_gemini_piece(data: dict[str, Any]) -> TextPiece | None:
    candidates = data.get("candidates")
    if not isinstance(candidates, list) or len(candidates) != 1 or not isinstance(candidates[0], dict):
        return None
    content = candidates[0].get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if candidates[0].get("finishReason") or not isinstance(parts, list) or len(parts) != 1:
        return None
    part = parts[0]
    if not isinstance(part, dict) or not isinstance(part.get("text"), str) or not set(part) <= {"text", "thought"}:
        return None
    return TextPiece(bool(part.get("thought")), part, "text")


PIECE_FINDERS: Mapping[str, Callable[[dict[str, Any]], TextPiece | None]] = {
    "anthropic": _find_anthropic_piece,
    "openai-responses": _find_responses_piece,
    "openai-chat": _find_chat_piece,
    "gemini": _find_gemini_piece,
}
