"""The gemini runtime: the Gemini CLI without a person, asking our hook before each tool and our gateway for a model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blueflame.agents.gemini_stream import parse_line
from blueflame.agents.hook import HOOK_TIMEOUT, find_hook
from blueflame.agents.programs import Program, check_model, check_variables, check_version, find_program
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal
from blueflame.agents.structured_output import add_schema_to_prompt
from blueflame.git.command import build_agent_identity
from blueflame.model.errors import Refused
from blueflame.policy.dialects import GEMINI_TOOLS
from blueflame.system.files import write_atomically

MIN_VERSION = "0.61.0"
INSTALL_HINT = (
    f"install it with `npm install -g @google/gemini-cli@{MIN_VERSION}`, or name it in runtimes.gemini.command"
)
START_SCRIPT = """\
rm -rf "$HOME/.gemini" && mkdir -p "$HOME/.gemini" && cp "$1" "$HOME/.gemini/settings.json" || exit 1
shift && exec "$@"
"""
"""Its settings as we wrote them, whatever a setup command has left in its HOME. It takes others only from root."""

ENVIRONMENT = {"GEMINI_CLI_NO_RELAUNCH": "true", "NO_BROWSER": "true", "GEMINI_TELEMETRY_ENABLED": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiRuntime:
    root: Path
    command: str = "gemini"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = "gemini"
    finishes: bool = True

    def describe_program(self) -> str:
        """For people: which one would be started."""
        program = self._program()
        return f"gemini at {program.path}" if program else ""

    def find_problems(self) -> tuple[str, ...]:
        program = self._program()
        if program is None:
            return (self._not_found(),)
        old = check_version(program, "gemini", MIN_VERSION, INSTALL_HINT)
        added = (f"runtimes.{self.name}.args: gemini takes none from a person; take them out",) if self.args else ()
        return (*((old,) if old else ()), *added, *check_variables(self.name, self.env, "GEMINI_.*|GOOGLE_.*"))

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = self._program()
        if program is None:
            raise Refused(self._not_found())
        model = check_model(brief.model, brief.role, "gemini")  # without one it asks another model which to take
        settings = directory / "gemini-settings.json"
        write_atomically(settings, json.dumps(_build_settings(brief), indent=1))
        return AgentLaunch(
            argv=(
                *("/bin/sh", "-c", START_SCRIPT, "gemini", str(settings)),
                *program.argv,
                *("--model", model, "--output-format", "stream-json"),
                *("--approval-mode", "yolo", "--skip-trust"),  # the hook says no, and nobody is there to be asked
                *("--extensions", "none"),
            ),
            env={**build_agent_identity(brief.agent_id), **self.env, **ENVIRONMENT, **_build_gateway_variables(brief)},
            stdin=add_schema_to_prompt("\n\n".join(filter(None, (brief.system, brief.prompt))), brief.schema),
            needs=(*program.needs, find_hook(), settings),
            apis=("gemini",) if brief.gateway else (),
            dialect="gemini",
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_line(line)

    def _program(self) -> Program | None:
        return find_program(self.command, root=self.root)

    def _not_found(self) -> str:
        return f"the program {self.command!r} was not found, or no node to run it; {INSTALL_HINT}"


def build_runtime(options: Mapping[str, Any], root: Path) -> GeminiRuntime:
    return GeminiRuntime(
        root=root,
        command=options.get("command") or "gemini",
        args=tuple(options.get("args") or ()),
        env=dict(options.get("env") or {}),
        name=str(options.get("name") or "gemini"),
    )


def _build_gateway_variables(brief: AgentBrief) -> dict[str, str]:
    if not brief.gateway:
        return {}
    return {"GOOGLE_GEMINI_BASE_URL": f"{brief.gateway}/gemini", "GEMINI_API_KEY": brief.token}


def _build_settings(brief: AgentBrief) -> dict[str, Any]:
    """Of its HOME: with --skip-trust those of the repository are not read, which tests/contracts/agents holds it to."""
    hook = {
        "type": "command",
        "name": "blueflame",
        "command": shlex.quote(str(find_hook())),
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
    }


def _list_offered_tools(brief: AgentBrief) -> list[str]:
    """An empty list would mean: all that it has."""
    return sorted({name for tool in brief.tools for name in GEMINI_TOOLS.get(tool, ())}) or ["none_at_all"]
