"""The gemini runtime: the Gemini CLI without a person; it asks our hook before each tool and our gateway for a model.

Its hook does not see the names that calls have in its output (stream-json), so calls are found in the audit log by
what they do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from blueflame.agents.hook import HOOK_TIMEOUT, PORT_VARIABLE, find_hook
from blueflame.agents.programs import NpmPackage, NpmRuntime, build_hook_command, check_model, join_prompt
from blueflame.agents.runtime import (
    MAX_DETAIL_CHARS,
    AgentBrief,
    AgentLaunch,
    CallNotRun,
    CallResult,
    OutputProblem,
    RunResult,
    Signal,
    TextOutput,
    parse_error_message,
    parse_json_line,
)
from blueflame.agents.structured_output import add_schema_to_prompt
from blueflame.git.command import build_agent_identity
from blueflame.lazy_dataclass import dataclass
from blueflame.model.audit import ObservedCall, compute_input_digest
from blueflame.policy.dialects import GEMINI, GEMINI_ASK, GEMINI_TOOLS, UntranslatableCall, translate_call
from blueflame.session.attempt_verdict import classify_failure_words
from blueflame.system.files import write_atomically

START_SCRIPT = """\
rm -rf "$HOME/.gemini" && mkdir -p "$HOME/.gemini" && cp "$1" "$HOME/.gemini/settings.json" || exit 1
shift && exec "$@"
"""
"""Replaces settings that a setup command may have left in its HOME. It reads others only from files of root."""

ENVIRONMENT = {"GEMINI_CLI_NO_RELAUNCH": "true", "NO_BROWSER": "true", "GEMINI_TELEMETRY_ENABLED": "false"}
ASK_SERVER = {"httpUrl": f"http://127.0.0.1:${{{PORT_VARIABLE}}}/mcp", "timeout": 604_800_000, "trust": True}
"""The only MCP server that it has: its warden, which ends the wait before a week is over. The hook refuses."""
NOT_RUN_ERRORS = ("tool_not_registered", "invalid_tool_params")
REFUSED_ERROR = "policy_violation"
TARGET_FIELDS = ("file_path", "command", "pattern", "path", "url", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiRuntime(NpmRuntime):
    package: ClassVar[NpmPackage] = NpmPackage(
        program="gemini", package="@google/gemini-cli", min_version="0.61.0", own_variables="GEMINI_.*|GOOGLE_.*"
    )
    command: str = "gemini"
    name: str = "gemini"

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = self.require_program()
        model = check_model(brief.model, brief.role, "gemini")  # without one it asks another model which to take
        settings = directory / "gemini-settings.json"
        write_atomically(settings, json.dumps(_build_settings(brief), indent=1))
        return AgentLaunch(
            argv=(
                *("/bin/sh", "-c", START_SCRIPT, "gemini", str(settings)),
                *program.argv,
                *("--model", model, "--output-format", "stream-json"),
                *("--approval-mode", "yolo", "--skip-trust"),  # the hook refuses; there is no person to ask
                *("--extensions", "none"),
            ),
            env={
                **build_agent_identity(brief.agent_id),
                **self.env,
                **ENVIRONMENT,
                **_build_gateway_variables(brief),
            },
            stdin=add_schema_to_prompt(join_prompt((brief.system, brief.prompt)), brief.schema),
            needs=(*program.needs, find_hook(), settings),
            apis=("gemini",) if brief.gateway else (),
            dialect="gemini",
            questions=brief.questions,
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_json_line(line, _parse_message)


build_runtime = GeminiRuntime.from_options


def _build_gateway_variables(brief: AgentBrief) -> dict[str, str]:
    if not brief.gateway:
        return {}
    return {"GOOGLE_GEMINI_BASE_URL": f"{brief.gateway}/gemini", "GEMINI_API_KEY": brief.token}


def _build_settings(brief: AgentBrief) -> dict[str, Any]:
    """Build the settings for its HOME; with --skip-trust it ignores the repository's (tests/contracts/agents)."""
    hook = {
        "type": "command",
        "name": "blueflame",
        "command": build_hook_command(),
        "timeout": HOOK_TIMEOUT * 1000,  # milliseconds here
    }
    return {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "checkpointing": {"enabled": False}},
        "tools": {"core": _list_offered_tools(brief)},
        "hooksConfig": {"enabled": True, "disabled": []},
        "hooks": {"BeforeTool": [{"matcher": "*", "hooks": [hook]}]},
        "mcpServers": {"blueflame": ASK_SERVER} if brief.questions else {},
    }


def _list_offered_tools(brief: AgentBrief) -> list[str]:
    """List the tools it may see, those of servers included. An empty list would mean all tools."""
    asking = (GEMINI_ASK,) if brief.questions else ()
    return sorted({*asking, *(name for tool in brief.tools for name in GEMINI_TOOLS.get(tool, ()))}) or ["none_at_all"]


def _parse_message(message: Mapping[str, Any]) -> Iterator[Signal]:
    """Unknown types are ignored: new versions bring new ones, and none of them decides anything."""
    match message.get("type"):
        case "message" if message.get("role") == "assistant":
            yield TextOutput(str(message.get("content") or ""), more=message.get("delta") is True)
        case "tool_use":
            yield from _parse_tool_use(message)
        case "tool_result":
            yield _parse_tool_result(message)
        case "error":
            yield OutputProblem(parse_error_message(message))
        case "result" if message.get("status") == "success":
            yield RunResult(in_words=True)
        case "result":
            detail = parse_error_message(message.get("error"))
            yield RunResult(failure=classify_failure_words(detail), detail=detail, in_words=True)


def _parse_tool_use(message: Mapping[str, Any]) -> Iterator[Signal]:
    tool, given, call = message.get("tool_name"), message.get("parameters"), str(message.get("tool_id") or "")
    if not isinstance(tool, str) or not isinstance(given, dict):
        yield ObservedCall(str(tool or ""), "", call, by_digest=True, open=True)
        return
    try:
        uses = translate_call(GEMINI, tool, given, "/")
    except UntranslatableCall:
        yield ObservedCall("", "", call, by_digest=True, open=True)  # the audit log has it without a tool, too
        return
    for use in uses:
        target = next((str(use.input[name]) for name in TARGET_FIELDS if name in use.input), "")
        yield ObservedCall(
            use.tool, target[:MAX_DETAIL_CHARS], call, compute_input_digest(use.input), open=True, by_digest=True
        )


def _parse_tool_result(message: Mapping[str, Any]) -> Signal:
    call, error = str(message.get("tool_id") or ""), message.get("error")
    kind = error.get("type") if isinstance(error, dict) and message.get("status") != "success" else ""
    return CallNotRun(call) if kind in NOT_RUN_ERRORS else CallResult(call, denied=kind == REFUSED_ERROR)
