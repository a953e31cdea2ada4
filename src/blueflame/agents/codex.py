"""The codex runtime: `codex exec`, which asks our hook before each tool and our gateway for its model.

All settings that govern it are arguments, which neither the repository nor the agent can change: a repository's
.codex/config.toml could otherwise switch the hooks off and start servers.

Its output does not name the calls as the hook saw them, so calls are found in the audit log by what they do. Commands
that end at once are sometimes missing from the output; the hook was asked about them all the same.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from blueflame.agents.hook import HOOK_TIMEOUT, find_hook
from blueflame.agents.programs import NpmPackage, NpmRuntime, build_hook_command, check_model, join_prompt
from blueflame.agents.runtime import (
    MAX_DETAIL_CHARS,
    AgentBrief,
    AgentLaunch,
    CallResult,
    OutputProblem,
    RunResult,
    Signal,
    TextOutput,
    parse_error_message,
    parse_json_line,
)
from blueflame.agents.structured_output import build_strict_schema
from blueflame.git.command import build_agent_identity
from blueflame.lazy_dataclass import dataclass
from blueflame.model.audit import ObservedCall, compute_input_digest
from blueflame.policy.dialects import translate_change
from blueflame.session.attempt_verdict import classify_failure_words
from blueflame.system.files import write_atomically

TOKEN_VARIABLE = "CODEX_GATEWAY_TOKEN"  # noqa: S105 (the variable's name)
WEEK_MS = 604_800_000  # a call may wait for a rate limit for hours; the gateway decides how long
PROVIDER = "blueflame"
SHELL_PATH = re.compile(r"(/usr/local/bin|/usr/bin|/bin)/(bash|sh|zsh|dash)")
SHELL_FLAGS = ("-lc", "-c")
HARMLESS_ITEMS = ("agent_message", "reasoning", "todo_list", "error")
TRUST_WARNING = "`--dangerously-bypass-hook-trust`"

DISABLED_FEATURES = (
    *("plugins", "remote_plugin", "apps", "multi_agent", "goals", "view_image", "image_generation", "memories"),
    *("tool_suggest", "skill_search", "skill_mcp_dependency_install", "browser_use", "computer_use", "in_app_browser"),
    *("sleep_tool", "shell_snapshot", "enable_request_compression"),
    "unified_exec_tty",  # with a terminal it could type into an allowed shell, and no hook is asked about that
)
"""Tools that it does not ask its hook about or that no policy can name, and traffic that is not the model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexRuntime(NpmRuntime):
    package: ClassVar[NpmPackage] = NpmPackage(
        program="codex",
        package="@openai/codex",
        min_version="0.166.0",
        own_variables="CODEX_.*|OPENAI_.*",
        native="@openai/codex-*/vendor/*/bin/codex",
    )
    command: str = "codex"
    name: str = "codex"

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = self.require_program()
        schema = _write_schema(brief, directory)
        settings = [word for key, value in _iter_settings(brief) for word in ("-c", f"{key}={value}")]
        return AgentLaunch(
            argv=(
                *program.argv,
                *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules"),
                *("--dangerously-bypass-hook-trust", "--enable", "hooks"),
                *(word for name in DISABLED_FEATURES for word in ("--disable", name)),
                *settings,
                *("--sandbox", "danger-full-access"),  # our sandbox is the boundary; its own does not work inside it
                *("--model", check_model(brief.model, brief.role, "codex")),
                *(("--output-schema", str(schema)) if schema else ()),
                "-",
            ),
            env={**build_agent_identity(brief.agent_id), **self.env, TOKEN_VARIABLE: brief.token or "none"},
            stdin=join_prompt((brief.system, brief.prompt)),
            needs=(*program.needs, find_hook(), *((schema,) if schema else ())),
            apis=("openai",) if brief.gateway else (),
            dialect="codex",
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_json_line(line, _parse_message)


build_runtime = CodexRuntime.from_options


def _write_schema(brief: AgentBrief, directory: Path) -> Path | None:
    if brief.schema is None:
        return None
    path = directory / "codex-schema.json"
    write_atomically(path, json.dumps(build_strict_schema(brief.schema), indent=1))
    return path


def _iter_settings(brief: AgentBrief) -> Iterator[tuple[str, str]]:
    """Yield keys and TOML values. Paths are keys inside tables: in a dotted key, a dot in a path would split it."""
    if brief.gateway:
        provider = {
            "name": _quote_text("Blue Flame"),
            "base_url": _quote_text(f"{brief.gateway}/openai"),
            "wire_api": _quote_text("responses"),
            "env_key": _quote_text(TOKEN_VARIABLE),
            "requires_openai_auth": "false",
            "supports_websockets": "false",
            "request_max_retries": "2",  # the gateway itself waits and retries
            "stream_max_retries": "2",
            "stream_idle_timeout_ms": str(WEEK_MS),
        }
        yield "model_provider", _quote_text(PROVIDER)
        yield f"model_providers.{PROVIDER}", _format_table(provider)
    command = _quote_text(build_hook_command("quiet"))
    hook = _format_table({"type": _quote_text("command"), "command": command, "timeout": str(HOOK_TIMEOUT)})
    yield "hooks.PreToolUse", f"[{_format_table({'matcher': _quote_text('*'), 'hooks': f'[{hook}]'})}]"
    distrust = _format_table({"trust_level": _quote_text("untrusted")})
    yield "projects", _format_table({_quote_text(brief.worktree): distrust})
    yield "approval_policy", _quote_text("never")
    yield "web_search", _quote_text("live" if "WebSearch" in brief.tools else "disabled")
    yield "project_doc_max_bytes", "0"  # its AGENTS.md is read like any other file
    yield "check_for_update_on_startup", "false"
    yield "analytics.enabled", "false"


def _quote_text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format_table(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name} = {value}" for name, value in entries.items()) + "}"


def _parse_message(message: Mapping[str, Any]) -> Iterator[Signal]:
    """Unknown types are ignored: new versions bring new ones, and none of them decides anything."""
    match message.get("type"):
        case "item.started" | "item.completed" as when:
            item = message.get("item")
            if isinstance(item, dict):
                yield from _parse_item(item, ended=when == "item.completed")
        case "turn.completed":
            yield RunResult(in_words=True)
        case "turn.failed":
            detail = parse_error_message(message.get("error"))
            yield RunResult(failure=classify_failure_words(detail), detail=detail, in_words=True)
        case "error":
            yield OutputProblem(parse_error_message(message))


def _parse_item(item: Mapping[str, Any], *, ended: bool) -> Iterator[Signal]:
    kind, name = str(item.get("type") or ""), str(item.get("id") or "")
    match kind:
        case "agent_message" if ended:
            yield TextOutput(str(item.get("text") or ""))
        case "error" if ended and not parse_error_message(item).startswith(TRUST_WARNING):
            yield OutputProblem(parse_error_message(item))
        case "command_execution":
            yield CallResult(name, denied=_is_declined(item)) if ended else _parse_command(item, name)
        case "file_change":
            yield from _parse_file_change(item, name, ended=ended)
        case _ if kind not in HARMLESS_ITEMS and ended:
            # its effect is unknown: if the audit log has no line for it, it counts as a gap
            yield ObservedCall(kind or "a nameless item", "", name, by_digest=True)


def _parse_command(item: Mapping[str, Any], name: str) -> ObservedCall:
    command = _unwrap_shell(str(item.get("command") or ""))
    return ObservedCall(
        "Bash", command[:MAX_DETAIL_CHARS], name, compute_input_digest({"command": command}), open=True, by_digest=True
    )


def _unwrap_shell(shown: str) -> str:
    """Return the command given to the shell. Any other command line is returned unchanged, so that no line of the audit
    log matches it."""
    try:
        words = shlex.split(shown)
    except ValueError:
        return shown
    return words[2] if len(words) == 3 and SHELL_PATH.fullmatch(words[0]) and words[1] in SHELL_FLAGS else shown


def _parse_file_change(item: Mapping[str, Any], name: str, *, ended: bool) -> Iterator[Signal]:
    changes = item.get("changes")
    for n, change in enumerate(changes if isinstance(changes, list) else ()):
        call = f"{name}/{n}"
        if ended:
            yield CallResult(call, denied=_is_declined(item))
        elif isinstance(change, dict):
            done = translate_change(str(change.get("kind")), str(change.get("path")))
            target = str(done.input["file_path"])[:MAX_DETAIL_CHARS]
            yield ObservedCall(done.tool, target, call, compute_input_digest(done.input), open=True, by_digest=True)


def _is_declined(item: Mapping[str, Any]) -> bool:
    return item.get("status") == "declined"
