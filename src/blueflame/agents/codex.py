"""The codex runtime: `codex exec`, asking our hook before each tool and our gateway for its model.

Everything that governs it stands in its arguments, which neither the repository nor the agent can change: a
repository's own .codex/config.toml would otherwise switch the hooks off and start servers of its own.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blueflame.agents.codex_stream import parse_line
from blueflame.agents.hook import HOOK_TIMEOUT, find_hook
from blueflame.agents.programs import Program, check_model, check_variables, check_version, find_program
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal
from blueflame.agents.structured_output import build_strict_schema
from blueflame.git.command import build_agent_identity
from blueflame.model.errors import Refused
from blueflame.system.files import write_atomically

MIN_VERSION = "0.166.0"
INSTALL_HINT = f"install it with `npm install -g @openai/codex@{MIN_VERSION}`, or name it in runtimes.codex.command"
NATIVE_GLOB = "@openai/codex-*/vendor/*/bin/codex"
TOKEN_VARIABLE = "CODEX_GATEWAY_TOKEN"  # noqa: S105 (the variable's name)
WEEK_MS = 604_800_000  # a call may be parked for hours; how long is for the gateway to say
PROVIDER = "blueflame"

DISABLED_FEATURES = (
    *("plugins", "remote_plugin", "apps", "multi_agent", "goals", "view_image", "image_generation", "memories"),
    *("tool_suggest", "skill_search", "skill_mcp_dependency_install", "browser_use", "computer_use", "in_app_browser"),
    *("sleep_tool", "shell_snapshot", "enable_request_compression"),
    "unified_exec_tty",  # with a terminal it could type into a shell that was allowed, and no hook is asked for that
)
"""Tools that its hook is not asked for or that the policy has no word for, and traffic that is not the model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexRuntime:
    root: Path
    command: str = "codex"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = "codex"
    finishes: bool = True

    def describe_program(self) -> str:
        """For people: which one would be started."""
        program = self._program()
        return f"codex at {program.path}" if program else ""

    def find_problems(self) -> tuple[str, ...]:
        program = self._program()
        if program is None:
            return (self._not_found(),)
        old = check_version(program, "codex", MIN_VERSION, INSTALL_HINT)
        added = (f"runtimes.{self.name}.args: codex takes none from a person; take them out",) if self.args else ()
        return (*((old,) if old else ()), *added, *check_variables(self.name, self.env, "CODEX_.*|OPENAI_.*"))

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = self._program()
        if program is None:
            raise Refused(self._not_found())
        schema = _write_schema(brief, directory)
        settings = [word for key, value in _iter_settings(brief) for word in ("-c", f"{key}={value}")]
        return AgentLaunch(
            argv=(
                *program.argv,
                *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules"),
                *("--dangerously-bypass-hook-trust", "--enable", "hooks"),
                *(word for name in DISABLED_FEATURES for word in ("--disable", name)),
                *settings,
                *("--sandbox", "danger-full-access"),  # the box is the boundary, and its own does not work in there
                *("--model", check_model(brief.model, brief.role, "codex")),
                *(("--output-schema", str(schema)) if schema else ()),
                "-",
            ),
            env={**build_agent_identity(brief.agent_id), **self.env, TOKEN_VARIABLE: brief.token or "none"},
            stdin="\n\n".join(filter(None, (brief.system, brief.prompt))),
            needs=(*program.needs, find_hook(), *((schema,) if schema else ())),
            apis=("openai",) if brief.gateway else (),
            dialect="codex",
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_line(line)

    def _program(self) -> Program | None:
        return find_program(self.command, root=self.root, native=NATIVE_GLOB)

    def _not_found(self) -> str:
        return f"the program {self.command!r} was not found; {INSTALL_HINT}"


def build_runtime(options: Mapping[str, Any], root: Path) -> CodexRuntime:
    return CodexRuntime(
        root=root,
        command=options.get("command") or "codex",
        args=tuple(options.get("args") or ()),
        env=dict(options.get("env") or {}),
        name=str(options.get("name") or "codex"),
    )


def _write_schema(brief: AgentBrief, directory: Path) -> Path | None:
    if brief.schema is None:
        return None
    path = directory / "codex-schema.json"
    write_atomically(path, json.dumps(build_strict_schema(brief.schema), indent=1))
    return path


def _iter_settings(brief: AgentBrief) -> Iterator[tuple[str, str]]:
    """As TOML, one key each: in tables, because a path with a dot in it would be taken for several keys."""
    if brief.gateway:
        provider = {
            "name": _quote_text("Blue Flame"),
            "base_url": _quote_text(f"{brief.gateway}/openai"),
            "wire_api": _quote_text("responses"),
            "env_key": _quote_text(TOKEN_VARIABLE),
            "requires_openai_auth": "false",
            "supports_websockets": "false",
            "request_max_retries": "2",  # the gateway waits and tries again by itself
            "stream_max_retries": "2",
            "stream_idle_timeout_ms": str(WEEK_MS),
        }
        yield "model_provider", _quote_text(PROVIDER)
        yield f"model_providers.{PROVIDER}", _format_table(provider)
    hook = _format_table(
        {"type": _quote_text("command"), "command": _quote_text(_build_hook_command()), "timeout": str(HOOK_TIMEOUT)}
    )
    yield "hooks.PreToolUse", f"[{_format_table({'matcher': _quote_text('*'), 'hooks': f'[{hook}]'})}]"
    distrust = _format_table({"trust_level": _quote_text("untrusted")})
    yield "projects", _format_table({_quote_text(folder): distrust for folder in _list_spellings(brief.worktree)})
    yield "approval_policy", _quote_text("never")
    yield "web_search", _quote_text("live" if "WebSearch" in brief.tools else "disabled")
    yield "project_doc_max_bytes", "0"  # what a repository says is read like any other file of it
    yield "check_for_update_on_startup", "false"
    yield "analytics.enabled", "false"


def _build_hook_command() -> str:
    return f"{shlex.quote(str(find_hook()))} quiet"


def _list_spellings(worktree: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((worktree, os.path.realpath(worktree))))


def _quote_text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format_table(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name} = {value}" for name, value in entries.items()) + "}"
