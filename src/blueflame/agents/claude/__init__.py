"""The claude runtime: Claude Code in print mode, which asks our hook before each tool and our gateway for its model.

It is governed by what is written here alone: it reads neither the person's settings nor the repository's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from blueflame.agents import fence
from blueflame.agents.claude.conversation import build_resumed_launch, name_session, read_conversation
from blueflame.agents.claude.program import (
    INSTALL_HINT,
    check_arguments,
    check_plugin,
    check_variables,
    find_claude,
    list_skills,
    probe_program,
    resolve_plugins,
)
from blueflame.agents.claude.stream import parse_line
from blueflame.agents.claude.terminal import build_terminal_launch
from blueflame.agents.hook import HOOK_TIMEOUT, PORT_VARIABLE, find_hook
from blueflame.agents.programs import CommandRuntime, Program, build_fence_variables, write_fence
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal
from blueflame.git.command import build_agent_identity
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.model.policy import SKILL
from blueflame.model.spend import Unit
from blueflame.system.files import write_atomically

MAX_ARGUMENT_BYTES = 131_000  # Linux takes 131,071 bytes in one
WEEK_MS, HALF_HOUR_MS = "604800000", "1800000"  # a call may wait for hours; the gateway decides how long
SUBAGENT_TOOLS = ("Task", "Agent")

ENVIRONMENT = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # they would give a run several ends
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",  # else `@.env` in a prompt is read and sent without asking the hook
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",  # the state of the checkout: no cache has what follows it
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_SKIP_PLUGIN_MCP_SERVERS": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",  # the gateway itself waits and retries
    "API_TIMEOUT_MS": WEEK_MS,
    "MCP_TOOL_TIMEOUT": WEEK_MS,  # of the tool `ask`, which waits for a person
    "CLAUDE_STREAM_FIRST_BYTE_TIMEOUT_MS": HALF_HOUR_MS,
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS": HALF_HOUR_MS,
}

PRINT_MODE_FLAGS = (
    *("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--include-hook-events"),
    *("--permission-prompts", "none"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeRuntime(CommandRuntime):
    repo: Path | None = None
    plugins: tuple[Path, ...] = ()
    superpowers: Path | None = None

    def describe_program(self) -> str:
        program = self.find_program()
        return f"claude {probe_program(program).version} at {program.path}" if program else ""

    def prepare_launch(self, brief: AgentBrief, *, directory: Path, in_terminal: bool = False) -> AgentLaunch:
        """`in_terminal`: a person can watch it, though it does not wait for one to talk with it."""
        program = self.require_program()
        files, prefix = _write_files(brief, directory), write_fence(directory)
        server = _write_ask_server(directory) if brief.questions and not in_terminal else None
        governed = (*program.argv, *self.args, *self._build_governing_flags(brief, *files))
        governed += ("--mcp-config", str(server)) if server else ()
        asked = (*PRINT_MODE_FLAGS, *_build_schema_flags(brief))
        launch = AgentLaunch(
            argv=(*governed, *asked, *_build_budget_flags(brief)),
            env={**self._build_environment(brief), "CLAUDE_CODE_SHELL_PREFIX": str(prefix)},
            stdin=brief.prompt,
            needs=(
                *program.needs,
                find_hook(),
                prefix,
                Path(fence.__file__),
                *filter(None, (*files, server)),
                *self._list_plugins(brief),
            ),
            apis=("anthropic",) if brief.gateway else (),
            questions=brief.questions if server else 0,
        )
        if not brief.interactive and not in_terminal:
            if brief.conversation:
                return build_resumed_launch(launch, brief, directory)
            return replace(launch, argv=(*launch.argv, "--session-id", name_session(brief.attempt)))
        alone = not brief.interactive
        return build_terminal_launch(
            launch, brief, directory, settings=files[0], governed=governed, asked=asked, alone=alone
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_line(line)

    def read_conversation(self, folder: Path) -> tuple[Mapping[str, Any], ...]:
        return read_conversation(folder)

    def find_program(self) -> Program | None:
        return find_claude(self.command, root=self.root)

    def describe_missing(self) -> str:
        named = f"{self.command!r} (runtimes.claude.command)" if self.command else "claude"
        return f"the program {named} was not found; {INSTALL_HINT}"

    def iter_problems(self) -> Iterator[str]:
        program = self.find_program()
        if program is None:
            yield self.describe_missing()
        else:
            yield from probe_program(program).problems
        yield from check_arguments(self.args)
        yield from check_variables(self.env)
        every = (*self.plugins, *((self.superpowers,) if self.superpowers else ()))
        yield from filter(None, (check_plugin(folder, self.repo) for folder in every))

    def _list_plugins(self, brief: AgentBrief) -> tuple[Path, ...]:
        """List the plugins to load; the one with the skills only for a role that has one of them."""
        skills = self.superpowers if self.superpowers and _has_skill(self.superpowers, brief) else None
        return tuple(dict.fromkeys((*self.plugins, *((skills,) if skills else ()))))

    def _build_governing_flags(self, brief: AgentBrief, settings: Path, system: Path | None) -> Iterator[str]:
        plugins = self._list_plugins(brief)
        tools = [tool for tool in brief.tools if tool != SKILL]
        if any(_has_skill(folder, brief) for folder in plugins):
            tools.append(SKILL)
        yield from (word for folder in plugins for word in ("--plugin-dir", str(folder)))
        yield from ("--setting-sources", "", "--strict-mcp-config", "--permission-mode", "dontAsk")
        yield from ("--tools", ",".join(tools))
        if set(SUBAGENT_TOOLS).isdisjoint(brief.tools):
            yield from ("--disallowed-tools", ",".join(SUBAGENT_TOOLS))
        yield from ("--settings", str(settings))
        yield from ("--append-system-prompt-file", str(system)) if system else ()
        yield from ("--model", brief.model) if brief.model else ()

    def _build_environment(self, brief: AgentBrief) -> dict[str, str]:
        """Build the environment, in which the person's variables cannot replace ours."""
        model = {"ANTHROPIC_BASE_URL": f"{brief.gateway}/anthropic", "ANTHROPIC_API_KEY": brief.token}
        fixed = {**ENVIRONMENT, **build_fence_variables(brief), **(model if brief.gateway else {})}
        return {**build_agent_identity(brief.agent_id), **self.env, **fixed}


def _has_skill(plugin: Path, brief: AgentBrief) -> bool:
    return not set(brief.skills).isdisjoint(list_skills(plugin))


def build_runtime(options: Mapping[str, Any], root: Path) -> ClaudeRuntime:
    """`superpowers` is the plugin with the general skills; plugins must be outside of `repo`."""
    repo, skills = options.get("repo"), options.get("superpowers")
    return replace(
        ClaudeRuntime.from_options(options, root),
        repo=Path(repo) if repo else None,
        plugins=resolve_plugins(options.get("plugins") or (), root),
        superpowers=resolve_plugins((skills,), root)[0] if skills else None,
    )


def _write_files(brief: AgentBrief, directory: Path) -> tuple[Path, Path | None]:
    """Write settings and system prompt to files: arguments have a length limit."""
    settings = directory / "claude-settings.json"
    write_atomically(settings, json.dumps(_build_settings(), indent=1))
    system = directory / "claude-system.md" if brief.system else None
    if system is not None:
        write_atomically(system, brief.system)
    return settings, system


def _write_ask_server(directory: Path) -> Path:
    """Name the only MCP server that it has: its warden, which serves the tool `ask`."""
    path = directory / "claude-mcp.json"
    url = f"http://127.0.0.1:${{{PORT_VARIABLE}}}/mcp"
    write_atomically(path, json.dumps({"mcpServers": {"blueflame": {"type": "http", "url": url}}}))
    return path


def _build_settings() -> dict[str, Any]:
    hook = {"type": "command", "command": shlex.quote(str(find_hook())), "timeout": HOOK_TIMEOUT, "onFailure": "block"}
    nothing = {"commit": "", "pr": ""}  # commits name their agents (commits.agent)
    hooks = {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}
    return {"attribution": nothing, "disableAllHooks": False, "hooks": hooks}


def _build_schema_flags(brief: AgentBrief) -> tuple[str, ...]:
    if brief.schema is None:
        return ()
    text = json.dumps(brief.schema, separators=(",", ":"))
    if len(text) > MAX_ARGUMENT_BYTES:
        raise Refused(
            f"the schema of {brief.role} has {len(text):,} bytes, more than claude's limit of {MAX_ARGUMENT_BYTES:,}"
        )
    return ("--json-schema", text)


def _build_budget_flags(brief: AgentBrief) -> tuple[str, ...]:
    """Set a second limit, in whole cents, behind the gateway's own count."""
    if brief.budget.unit is not Unit.USD or brief.budget.unlimited:
        return ()
    cents = -(-brief.budget.limit // 10_000)
    return ("--max-budget-usd", f"{cents // 100}.{cents % 100:02d}")
