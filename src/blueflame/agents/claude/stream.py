"""Parse the output of Claude Code (stream-json) into signals.

Its `subtype` is not used: a failed run has `success` there. What counts is `is_error`, the terminal reason and the key
of the structured output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.agents.runtime import (
    MAX_DETAIL_CHARS,
    CallNotRun,
    CallResult,
    OutputProblem,
    RunResult,
    Signal,
    StructuredOutput,
    TextOutput,
    parse_json_line,
)
from blueflame.model.audit import ObservedCall
from blueflame.model.spend import Spend, to_micro_usd

PARTIAL_PREFIX = '{"type":"stream_event"'
"""Most lines start so: parts of messages that are repeated whole. They only show that the agent is alive."""

TARGET_FIELDS = ("file_path", "notebook_path", "command", "pattern", "path", "url", "skill", "query", "description")
TOOL_USE_ERROR = "<tool_use_error>"
MALFORMED = re.compile(r"^API Error: .{0,40}(JSON|Unexpected (token|end)|malformed)", re.IGNORECASE)
HOOK_FAILED = re.compile(r"PreToolUse:\S+ hook error: \[[^\]\n]*\]: failed; blocking because onFailure is")
FAILURE_BY_REASON = {"budget_exhausted": "budget", "structured_output_retry_exhausted": "output"}


def parse_line(line: str) -> tuple[Signal, ...]:
    return () if line.startswith(PARTIAL_PREFIX) else parse_json_line(line, _parse_entry)


def _parse_entry(entry: Mapping[str, Any]) -> Iterator[Signal]:
    """Unknown types are ignored: new versions bring new ones, and none of them decides anything."""
    match entry.get("type"):
        case "assistant":
            yield from _parse_message(entry)
        case "user":
            yield from _parse_tool_results(entry)
        case "result":
            yield from _parse_result(entry)


def _parse_message(entry: Mapping[str, Any]) -> Iterator[Signal]:
    """Parse the blocks of a message. Each line has one block, so nothing is counted twice."""
    for block in _iter_blocks(entry):
        match block.get("type"):
            case "text":
                if str(block.get("text", "")).strip():
                    yield TextOutput(str(block["text"]))
            case "tool_use" | "server_tool_use" as kind:
                yield _parse_tool_use(block, is_open=kind == "tool_use")


def _parse_tool_use(block: Mapping[str, Any], *, is_open: bool) -> ObservedCall:
    given = block.get("input")
    target = next((str(given[name]) for name in TARGET_FIELDS if name in given), "") if isinstance(given, dict) else ""
    tool, call = (str(block.get(name) or "") for name in ("name", "id"))
    return ObservedCall(tool, target[:MAX_DETAIL_CHARS], call, open=is_open)


def _parse_tool_results(entry: Mapping[str, Any]) -> Iterator[Signal]:
    decided = _read_decisions(entry.get("tool_result_meta"))
    for block in _iter_blocks(entry):
        if block.get("type") != "tool_result":
            continue
        call = str(block.get("tool_use_id") or "")
        if call in decided:
            yield CallResult(call, decided[call], hook_failed=decided[call] and _has_hook_failed(block))
        elif _is_not_run(block, entry):
            yield CallNotRun(call)
        else:
            yield CallResult(call)


def _is_not_run(block: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether the program rejected the call without asking the hook: unknown tool, or invalid input.

    A call that the hook decided on has that decision in its entry, and a tool's output cannot remove it.
    """
    content = block.get("content")
    return (
        "tool_result_meta" not in entry
        and block.get("is_error") is True
        and isinstance(content, str)
        and content.startswith(TOOL_USE_ERROR)
        and isinstance(entry.get("tool_use_result"), str)
    )


def _has_hook_failed(block: Mapping[str, Any]) -> bool:
    """Whether the hook died, instead of refusing the call; what a hook says does not begin so."""
    content = block.get("content")
    return isinstance(content, str) and HOOK_FAILED.match(content) is not None


def _read_decisions(meta: object) -> dict[str, bool]:
    """Return the calls with a decision, and whether they were refused."""
    found = {}
    for each in meta if isinstance(meta, list) else ():
        if isinstance(each, dict):
            decision = each.get("permission_decision")
            refused = isinstance(decision, dict) and decision.get("decision") == "reject"
            found[str(each.get("id") or "")] = refused or "non_execution_kind" in each
    return found


def _parse_result(entry: Mapping[str, Any]) -> Iterator[Signal]:
    text, output = entry.get("result"), entry.get("structured_output")
    if isinstance(text, str) and text.strip():
        yield TextOutput(text)
    if isinstance(output, dict):
        yield StructuredOutput(output)
    elif "structured_output" in entry:
        yield OutputProblem("its structured output is not an object")
    failure = _classify_failure(entry)
    yield RunResult(
        failure=failure, detail=_format_detail(entry) if failure else "", reported=_read_reported_spend(entry)
    )


def _classify_failure(entry: Mapping[str, Any]) -> str:
    reason = entry.get("terminal_reason")
    if entry.get("is_error") is False and reason in ("completed", None):
        return ""
    if isinstance(reason, str) and reason in FAILURE_BY_REASON:
        return FAILURE_BY_REASON[reason]
    return _classify_api_error(entry) if entry.get("is_error") is True else "error"


def _classify_api_error(entry: Mapping[str, Any]) -> str:
    status = entry.get("api_error_status")
    if isinstance(status, int) and not isinstance(status, bool):
        return "account" if status in (401, 402) else "outage" if status == 429 or 500 <= status <= 599 else "error"
    is_malformed = entry.get("terminal_reason") == "api_error" and MALFORMED.search(str(entry.get("result", "")))
    return "outage" if entry.get("api_error") == "connection_failed" or is_malformed else "error"


def _format_detail(entry: Mapping[str, Any]) -> str:
    errors = entry.get("errors")
    words = [str(each) for each in errors] if isinstance(errors, list) else []
    words += [str(entry[name]) for name in ("result",) if isinstance(entry.get(name), str) and entry[name]]
    return ("; ".join(words) or f"it ended with {entry.get('terminal_reason') or 'an error'}")[:MAX_DETAIL_CHARS]


def _read_reported_spend(entry: Mapping[str, Any]) -> Spend | None:
    """Sum the tokens of all models: the total in the same entry lacks the last call of an aborted run."""
    models = entry.get("modelUsage")
    cost = entry.get("total_cost_usd")
    if not isinstance(models, dict) or isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    used = [each for each in models.values() if isinstance(each, dict)]
    try:
        return Spend(
            micro_usd=max(0, to_micro_usd(cost)),
            input_tokens=_sum_tokens(used, "inputTokens"),
            output_tokens=_sum_tokens(used, "outputTokens"),
            cache_read_tokens=_sum_tokens(used, "cacheReadInputTokens"),
            cache_write_tokens=_sum_tokens(used, "cacheCreationInputTokens"),
        )
    except (ValueError, OverflowError):  # NaN and infinity are numbers to Python's JSON
        return None


def _sum_tokens(used: list[dict[str, Any]], name: str) -> int:
    return sum(count for each in used if isinstance(count := each.get(name), int) and count > 0)


def _iter_blocks(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield block
