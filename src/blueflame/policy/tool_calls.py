"""A tool call as a hook tells it: one JSON object. What is not exactly that is no call, and nobody acts on it."""

from __future__ import annotations

import json
from typing import Any

from blueflame.model.policy import ToolCall

MAX_CALL_BYTES = 10_000_000


class MalformedCall(ValueError):
    """What came is no call; the message says why."""


def read_call(said: bytes, *, cwd: str) -> ToolCall:
    """`cwd` is where a call that does not say so is made: the worktree. Raises Malformed."""
    if len(said) > MAX_CALL_BYTES:
        raise MalformedCall(f"a call has at most {MAX_CALL_BYTES:,} bytes")
    given = _parse_object(said)
    return ToolCall(
        tool=_read_text(given, "tool_name", None),
        input=_read_inputs(given),
        cwd=_read_text(given, "cwd", cwd),
        id=_read_text(given, "tool_use_id", ""),
    )


def _parse_object(said: bytes) -> dict[str, Any]:
    try:
        given = json.loads(said.decode("utf-8"), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except MalformedCall:
        raise
    except RecursionError:
        raise MalformedCall("the JSON is nested too deeply") from None
    except ValueError as error:  # bad UTF-8, bad JSON, a number of a million digits
        raise MalformedCall(f"it is not JSON: {str(error)[:120]}") from None
    if not isinstance(given, dict):
        raise MalformedCall("it is JSON, but not an object")
    return given


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that is given twice two readers take different values, and one of them is the agent's tool."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedCall("a name is given twice in one object")
    return found


def _reject_constant(name: str) -> float:
    raise MalformedCall(f"{name} is not a number of JSON")


def _read_text(given: dict[str, Any], name: str, default: str | None) -> str:
    value = given.get(name, default)
    if value is None:
        value = default
    if not isinstance(value, str) or (default is None and not value):
        raise MalformedCall(f"{name} is missing, or is not a text")
    return value


def _read_inputs(given: dict[str, Any]) -> dict[str, Any]:
    inputs = given.get("tool_input", {})
    if not isinstance(inputs, dict):
        raise MalformedCall("tool_input is not an object")
    return inputs
