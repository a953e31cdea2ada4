"""The claude runtime: Claude Code in print mode, asking our hook before each tool and our gateway for its model.

Only what is written here steers it: neither the person's settings nor the repository's are read.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blueflame.agents.claude.options import check_arguments, check_variables
from blueflame.agents.claude.plugins import check_plugin, list_skills, resolve_plugins
from blueflame.agents.claude.program import INSTALL_HINT, Program, find_claude, probe_program
from blueflame.agents.claude.stream import parse_line
from blueflame.agents.claude.terminal import build_terminal_launch
from blueflame.agents.hook import HOOK_TIMEOUT, find_hook
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal
from blueflame.git.command import build_agent_identity
from blueflame.model.errors import Refused
from blueflame.model.policy import SKILL
from blueflame.model.spend import Unit
from blueflame.system.files import write_atomically

MAX_ARGUMENT_BYTES = 131_000  # Linux takes 131,071 bytes in one
WEEK_MS, HALF_HOUR_MS = "604800000", "1800000"  # a call may be parked for hours: for how long, the gateway says
SUBAGENT_TOOLS = ("Task", "Agent")

ENVIRONMENT = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # with them a run has several ends
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",  # else `@.env` in a prompt is read and sent, and no hook is asked
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_SKIP_PLUGIN_MCP_SERVERS": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",  # the gateway waits and tries again by itself
    "API_TIMEOUT_MS": WEEK_MS,
    "CLAUDE_STREAM_FIRST_BYTE_TIMEOUT_MS": HALF_HOUR_MS,
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS": HALF_HOUR_MS,
}

PRINT_MODE_FLAGS = (
    *("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--include-hook-events"),
    *("--permission-prompts", "none"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeRuntime:
    root: Path
    repo: Path | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[Path, ...] = ()
    superpowers: Path | None = None
    finishes: bool = True

    def describe_program(self) -> str:
        """For people: which one would be started."""
        program = self._program()
        return f"claude {probe_program(program).version} at {program.path}" if program else ""

    def find_problems(self) -> tuple[str, ...]:
        return tuple(self._problems())

    def prepare_launch(self, brief: AgentBrief, *, directory: Path, in_terminal: bool = False) -> AgentLaunch:
        """`in_terminal`: a person can watch it at work, though nobody is expected to talk with it."""
        program = self._program()
        if program is None:
            raise Refused(self._not_found())
        files = _write_files(brief, directory)
        governed = (*program.argv, *self.args, *self._governing(brief, *files))
        asked = (*PRINT_MODE_FLAGS, *_build_schema_flags(brief))
        launch = AgentLaunch(
            argv=(*governed, *asked, "--no-session-persistence", *_build_budget_flags(brief)),
            env=self._environment(brief),
            stdin=brief.prompt,
            needs=(*program.needs, find_hook(), *filter(None, files), *self._loaded(brief)),
            apis=("anthropic",) if brief.gateway else (),
        )
        if not brief.interactive and not in_terminal:
            return launch
        alone = not brief.interactive
        return build_terminal_launch(
            launch, brief, directory, settings=files[0], governed=governed, asked=asked, alone=alone
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_line(line)

    def _program(self) -> Program | None:
        return find_claude(self.command, root=self.root, environ=os.environ)

    def _not_found(self) -> str:
        named = f"{self.command!r} (runtimes.claude.command)" if self.command else "claude"
        return f"the program {named} was not found; {INSTALL_HINT}"

    def _problems(self) -> Iterator[str]:
        program = self._program()
        if program is None:
            yield self._not_found()
        else:
            yield from probe_program(program).problems
        yield from check_arguments(self.args)
        yield from check_variables(self.env)
        every = (*self.plugins, *((self.superpowers,) if self.superpowers else ()))
        yield from filter(None, (check_plugin(folder, self.repo) for folder in every))

    def _loaded(self, brief: AgentBrief) -> tuple[Path, ...]:
        """The skills' own plugin comes only for somebody who is to have one of its skills."""
        wanted = self.superpowers is not None and not set(brief.skills).isdisjoint(list_skills(self.superpowers))
        return tuple(dict.fromkeys((*self.plugins, *((self.superpowers,) if self.superpowers and wanted else ()))))

    def _governing(self, brief: AgentBrief, settings: Path, system: Path | None) -> Iterator[str]:
        loaded = self._loaded(brief)
        skilled = any(not set(brief.skills).isdisjoint(list_skills(folder)) for folder in loaded)
        yield from (word for folder in loaded for word in ("--plugin-dir", str(folder)))
        yield from ("--setting-sources", "", "--strict-mcp-config", "--permission-mode", "dontAsk")
        yield from (
            "--tools",
            ",".join((*(tool for tool in brief.tools if tool != SKILL), *((SKILL,) if skilled else ()))),
        )
        yield from (
            ("--disallowed-tools", ",".join(SUBAGENT_TOOLS)) if set(SUBAGENT_TOOLS).isdisjoint(brief.tools) else ()
        )
        yield from ("--settings", str(settings))
        yield from ("--append-system-prompt-file", str(system)) if system else ()
        yield from ("--model", brief.model) if brief.model else ()

    def _environment(self, brief: AgentBrief) -> dict[str, str]:
        """What a person has set goes before our own preferences, and never before what governs."""
        model = {"ANTHROPIC_BASE_URL": f"{brief.gateway}/anthropic", "ANTHROPIC_API_KEY": brief.token}
        return {**build_agent_identity(brief.agent_id), **self.env, **ENVIRONMENT, **(model if brief.gateway else {})}


def build_runtime(options: Mapping[str, Any], root: Path) -> ClaudeRuntime:
    """From the settings of this runtime; `superpowers` is the plugin with the general skills, `repo` the repository,
    which no plugin may be in."""
    repo, skills = options.get("repo"), options.get("superpowers")
    return ClaudeRuntime(
        root=root,
        repo=Path(repo) if repo else None,
        command=options.get("command"),
        args=tuple(options.get("args") or ()),
        env=dict(options.get("env") or {}),
        plugins=resolve_plugins(options.get("plugins") or (), root),
        superpowers=resolve_plugins((skills,), root)[0] if skills else None,
    )


def _write_files(brief: AgentBrief, directory: Path) -> tuple[Path, Path | None]:
    """Settings and system prompt: in the attempt's folder and not in the arguments, which are short."""
    settings = directory / "claude-settings.json"
    write_atomically(settings, json.dumps(_build_settings(), indent=1))
    system = directory / "claude-system.md" if brief.system else None
    if system is not None:
        write_atomically(system, brief.system)
    return settings, system


def _build_settings() -> dict[str, Any]:
    hook = {"type": "command", "command": shlex.quote(str(find_hook())), "timeout": HOOK_TIMEOUT, "onFailure": "block"}
    return {"disableAllHooks": False, "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}


def _build_schema_flags(brief: AgentBrief) -> tuple[str, ...]:
    if brief.schema is None:
        return ()
    text = json.dumps(brief.schema, separators=(",", ":"))
    if len(text) > MAX_ARGUMENT_BYTES:
        raise Refused(f"the schema of {brief.role} has {len(text):,} bytes, and claude takes {MAX_ARGUMENT_BYTES:,}")
    return ("--json-schema", text)


def _build_budget_flags(brief: AgentBrief) -> tuple[str, ...]:
    """A second line of defence, in whole cents: the gateway's own count goes before it."""
    if brief.budget.unit is not Unit.USD or brief.budget.unlimited:
        return ()
    cents = -(-brief.budget.limit // 10_000)
    return ("--max-budget-usd", f"{cents // 100}.{cents % 100:02d}")
