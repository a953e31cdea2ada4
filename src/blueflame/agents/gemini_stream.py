"""What the Gemini CLI prints, line by line (stream-json), read into signals.

Its hook is not told the names that its calls have here, so that they are found in the log by what they do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.agents.runtime import Acted, CallNotRun, CallResult, OutputProblem, RunResult, Signal, TextOutput
from blueflame.model.audit import compute_input_digest
from blueflame.policy.dialects import GEMINI, UntranslatableCall, translate_call

NOT_RUN_ERRORS = ("tool_not_registered", "invalid_tool_params")
REFUSED_ERROR = "policy_violation"
TARGET_FIELDS = ("file_path", "command", "pattern", "path", "url", "query")
MAX_DETAIL = 500


def parse_line(line: str) -> tuple[Signal, ...]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return (OutputProblem(f"a line of its output is not JSON: {line[:200]!r}"),)
    if not isinstance(said, dict):
        return (OutputProblem(f"a line of its output is not an object: {line[:200]!r}"),)
    match said.get("type"):
        case "message" if said.get("role") == "assistant":
            return (TextOutput(str(said.get("content") or ""), more=said.get("delta") is True),)
        case "tool_use":
            return tuple(_parse_tool_use(said))
        case "tool_result":
            return (_parse_tool_result(said),)
        case "error":
            return (OutputProblem(_read_message(said)),)
        case "result":
            return (_parse_end(said),)
    return ()  # new kinds come with new versions, and none of them decides anything


def _parse_tool_use(said: Mapping[str, Any]) -> Iterator[Signal]:
    tool, given, call = said.get("tool_name"), said.get("parameters"), str(said.get("tool_id") or "")
    if not isinstance(tool, str) or not isinstance(given, dict):
        yield Acted(str(tool or ""), "", call, by_digest=True, open=True)
        return
    try:
        uses = translate_call(GEMINI, tool, given, "/")
    except UntranslatableCall:
        yield Acted("", "", call, by_digest=True, open=True)  # as the log has it: nobody knew what it was about
        return
    for use in uses:
        target = next((str(use.input[name]) for name in TARGET_FIELDS if name in use.input), "")
        yield Acted(use.tool, target[:MAX_DETAIL], call, compute_input_digest(use.input), open=True, by_digest=True)


def _parse_tool_result(said: Mapping[str, Any]) -> Signal:
    call, error = str(said.get("tool_id") or ""), said.get("error")
    kind = error.get("type") if isinstance(error, dict) and said.get("status") != "success" else ""
    return CallNotRun(call) if kind in NOT_RUN_ERRORS else CallResult(call, denied=kind == REFUSED_ERROR)


def _parse_end(said: Mapping[str, Any]) -> RunResult:
    if said.get("status") == "success":
        return RunResult(in_words=True)
    words = _read_message(said.get("error"))
    return RunResult(failure="error", detail=words, in_words=True)


def _read_message(said: object) -> str:
    text = said.get("message") if isinstance(said, dict) else None
    return (text if isinstance(text, str) and text else "it failed and did not say why")[:MAX_DETAIL]
