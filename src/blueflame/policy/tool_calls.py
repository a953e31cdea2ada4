"""Parse the JSON of an agent's hook into tool calls: one parser for the hook server and for `blueflame policy check`.

Strict: what two parsers could read in two ways is not a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from blueflame.model.policy import ToolCall
from blueflame.policy.dialects import CLAUDE, EVENTS, ToolUse, UntranslatableCall, translate_call

MAX_CALL_BYTES = 10 * 1024 * 1024 + 1  # hook.sh takes 10 MiB and adds a line end
MAX_ID_LENGTH = 200


class MalformedCall(ValueError):
    """The hook did not send a tool call."""


def read_calls(body: bytes, dialect: str = CLAUDE, *, cwd: str | None = None) -> tuple[ToolCall, ...]:
    """Return the calls that one hook request asks for: all of them are allowed, or none. Raises MalformedCall.

    `cwd` stands in for the event and the folder where a person who writes calls by hand leaves them out.
    """
    call = _build_call(_parse_object(body), EVENTS[dialect], cwd)
    if dialect == CLAUDE:
        return (call,)
    try:
        return tuple(_place_use(use, call) for use in translate_call(dialect, call.tool, call.input, call.cwd))
    except UntranslatableCall as error:
        raise MalformedCall(str(error)) from error


def _parse_object(body: bytes) -> Mapping[str, Any]:
    if len(body) > MAX_CALL_BYTES:
        raise MalformedCall(f"a call has at most {MAX_CALL_BYTES:,} bytes")
    try:
        parsed = json.loads(body.decode(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, too deep, a number of a million digits
        raise MalformedCall(f"the call is not JSON: {error!s:.200}") from error
    if not isinstance(parsed, dict):
        raise MalformedCall("the call is not a JSON object")
    return parsed


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is used twice in one object")
    return found


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _build_call(given: Mapping[str, Any], events: tuple[str, ...], cwd: str | None) -> ToolCall:
    if cwd is not None:
        given = {"hook_event_name": events[0], "cwd": cwd, **given}
    if given.get("hook_event_name") not in events:
        raise MalformedCall(f"hook_event_name must be {events[0]!r}")
    tool, inputs, call_id = given.get("tool_name"), given.get("tool_input"), given.get("tool_use_id", "")
    if not (isinstance(tool, str) and tool):
        raise MalformedCall("tool_name must be a non-empty string")
    if not isinstance(inputs, dict):
        raise MalformedCall("tool_input must be an object")
    if not (isinstance(given.get("cwd"), str) and given["cwd"].startswith("/")):
        raise MalformedCall("cwd must be an absolute path")
    if not (isinstance(call_id, str) and len(call_id) <= MAX_ID_LENGTH):
        raise MalformedCall(f"tool_use_id must be a string of at most {MAX_ID_LENGTH} characters")
    return ToolCall(tool=tool, input=inputs, cwd=given["cwd"], id=call_id)


def _place_use(use: ToolUse, call: ToolCall) -> ToolCall:
    cwd = use.folder if use.folder.startswith("/") else f"{call.cwd}/{use.folder}" if use.folder else call.cwd
    return ToolCall(tool=use.tool, input=use.input, cwd=cwd, id=call.id)
