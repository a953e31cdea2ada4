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

from blueflame.agents.codex_stream import read_line
from blueflame.agents.hook import DEADLINE, hook_path
from blueflame.agents.programs import Program, bad_variables, find_program, own_model, version_problem
from blueflame.agents.runtime import Brief, Launch, Signal
from blueflame.agents.structured_output import strict
from blueflame.git.commit_identity import commit_identity
from blueflame.model.errors import Refused
from blueflame.system.files import write_whole

OLDEST = "0.166.0"
HOW_TO_GET_IT = f"install it with `npm install -g @openai/codex@{OLDEST}`, or name it in runtimes.codex.command"
NATIVE = "@openai/codex-*/vendor/*/bin/codex"
TOKEN = "CODEX_GATEWAY_TOKEN"  # noqa: S105 (the variable's name)
WEEK_MS = 604_800_000  # a call may be parked for hours; how long is for the gateway to say
PROVIDER = "blueflame"

SWITCHED_OFF = (
    *("plugins", "remote_plugin", "apps", "multi_agent", "goals", "view_image", "image_generation", "memories"),
    *("tool_suggest", "skill_search", "skill_mcp_dependency_install", "browser_use", "computer_use", "in_app_browser"),
    *("sleep_tool", "shell_snapshot", "enable_request_compression"),
    "unified_exec_tty",  # with a terminal it could type into a shell that was allowed, and no hook is asked for that
)
"""Tools that its hook is not asked for or that the policy has no word for, and traffic that is not the model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codex:
    root: Path
    command: str = "codex"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = "codex"
    finishes: bool = True

    def found(self) -> str:
        """For people: which one would be started."""
        program = self._program()
        return f"codex at {program.path}" if program else ""

    def problems(self) -> tuple[str, ...]:
        program = self._program()
        if program is None:
            return (self._not_found(),)
        old = version_problem(program, "codex", OLDEST, HOW_TO_GET_IT)
        added = (f"runtimes.{self.name}.args: codex takes none from a person; take them out",) if self.args else ()
        return (*((old,) if old else ()), *added, *bad_variables(self.name, self.env, "CODEX_.*|OPENAI_.*"))

    def launch(self, brief: Brief, *, directory: Path) -> Launch:
        program = self._program()
        if program is None:
            raise Refused(self._not_found())
        schema = _put_schema(brief, directory)
        settings = [word for key, value in _settings(brief) for word in ("-c", f"{key}={value}")]
        return Launch(
            argv=(
                *program.argv,
                *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules"),
                *("--dangerously-bypass-hook-trust", "--enable", "hooks"),
                *(word for name in SWITCHED_OFF for word in ("--disable", name)),
                *settings,
                *("--sandbox", "danger-full-access"),  # the box is the boundary, and its own does not work in there
                *("--model", own_model(brief.model, brief.role, "codex")),
                *(("--output-schema", str(schema)) if schema else ()),
                "-",
            ),
            env={**commit_identity(brief.agent_id), **self.env, TOKEN: brief.token or "none"},
            stdin="\n\n".join(filter(None, (brief.system, brief.prompt))),
            needs=(*program.needs, hook_path(), *((schema,) if schema else ())),
            apis=("openai",) if brief.gateway else (),
            dialect="codex",
        )

    def read(self, line: str) -> tuple[Signal, ...]:
        return read_line(line)

    def _program(self) -> Program | None:
        return find_program(self.command, root=self.root, native=NATIVE)

    def _not_found(self) -> str:
        return f"the program {self.command!r} was not found; {HOW_TO_GET_IT}"


def codex(options: Mapping[str, Any], root: Path) -> Codex:
    return Codex(
        root=root,
        command=options.get("command") or "codex",
        args=tuple(options.get("args") or ()),
        env=dict(options.get("env") or {}),
        name=str(options.get("name") or "codex"),
    )


def _put_schema(brief: Brief, directory: Path) -> Path | None:
    if brief.schema is None:
        return None
    path = directory / "codex-schema.json"
    write_whole(path, json.dumps(strict(brief.schema), indent=1))
    return path


def _settings(brief: Brief) -> Iterator[tuple[str, str]]:
    """As TOML, one key each: in tables, because a path with a dot in it would be taken for several keys."""
    if brief.gateway:
        provider = {
            "name": _text("Blue Flame"),
            "base_url": _text(f"{brief.gateway}/openai"),
            "wire_api": _text("responses"),
            "env_key": _text(TOKEN),
            "requires_openai_auth": "false",
            "supports_websockets": "false",
            "request_max_retries": "2",  # the gateway waits and tries again by itself
            "stream_max_retries": "2",
            "stream_idle_timeout_ms": str(WEEK_MS),
        }
        yield "model_provider", _text(PROVIDER)
        yield f"model_providers.{PROVIDER}", _table(provider)
    hook = _table({"type": _text("command"), "command": _text(_hook_command()), "timeout": str(DEADLINE)})
    yield "hooks.PreToolUse", f"[{_table({'matcher': _text('*'), 'hooks': f'[{hook}]'})}]"
    distrust = _table({"trust_level": _text("untrusted")})
    yield "projects", _table({_text(folder): distrust for folder in _spellings(brief.worktree)})
    yield "approval_policy", _text("never")
    yield "web_search", _text("live" if "WebSearch" in brief.tools else "disabled")
    yield "project_doc_max_bytes", "0"  # what a repository says is read like any other file of it
    yield "check_for_update_on_startup", "false"
    yield "analytics.enabled", "false"


def _hook_command() -> str:
    return f"{shlex.quote(str(hook_path()))} quiet"


def _spellings(worktree: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((worktree, os.path.realpath(worktree))))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _table(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name} = {value}" for name, value in entries.items()) + "}"
