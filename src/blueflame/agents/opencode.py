"""The opencode runtime: `opencode acp` with our player as its editor, told to ask before everything it does.

Its plugins could govern it as well, but they install packages when it starts, which cannot be done in a box.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blueflame.agents.acp import build_client_launch, find_library_problems, parse_line
from blueflame.agents.programs import Program, check_model, check_variables, check_version, find_program
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal
from blueflame.model.errors import Refused

MIN_VERSION = "1.18.33"
INSTALL_HINT = f"install it with `npm install -g opencode-ai@{MIN_VERSION}`, or name it in runtimes.opencode.command"
NATIVE_GLOB = "opencode-*/bin/opencode"
TOKEN_VARIABLE = "OPENCODE_GATEWAY_TOKEN"  # noqa: S105 (the variable's name)
PROVIDER = "blueflame"
MAX_CONTEXT_TOKENS, MAX_OUTPUT_TOKENS = 200_000, 32_000  # tokens; what it takes for a model that it knows nothing of

DISABLE_VARIABLES = (
    *("OPENCODE_DISABLE_PROJECT_CONFIG", "OPENCODE_PURE", "OPENCODE_DISABLE_DEFAULT_PLUGINS"),
    *("OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_EXTERNAL_SKILLS", "OPENCODE_DISABLE_AUTOUPDATE"),
    *("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_SHARE"),
)
"""Neither the repository's settings and plugins nor anything from the network: a repository could allow itself all."""


PERMISSION_NAMES = {
    "Bash": "bash",
    "Read": "read",
    "Write": "edit",
    "Edit": "edit",
    "Glob": "glob",
    "Grep": "grep",
    "WebFetch": "webfetch",
    "WebSearch": "websearch",
    "TodoWrite": "todowrite",
}
"""What it calls the permissions for the tools of a policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeRuntime:
    root: Path
    command: str = "opencode"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = "opencode"
    finishes: bool = True

    def describe_program(self) -> str:
        """For people: which one would be started."""
        program = self._program()
        return f"opencode at {program.path}" if program else ""

    def find_problems(self) -> tuple[str, ...]:
        program = self._program()
        if program is None:
            return (self._not_found(), *find_library_problems())
        old = check_version(program, "opencode", MIN_VERSION, INSTALL_HINT)
        added = (f"runtimes.{self.name}.args: opencode takes none from a person; take them out",) if self.args else ()
        return (
            *((old,) if old else ()),
            *added,
            *find_library_problems(),
            *check_variables(self.name, self.env, "OPENCODE.*|OPENAI_.*"),
        )

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = self._program()
        if program is None:
            raise Refused(self._not_found())
        model = check_model(brief.model, brief.role, "opencode")
        settings = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(_build_settings(brief, model)),
            TOKEN_VARIABLE: brief.token or "none",
        }
        return build_client_launch(
            brief,
            directory,
            argv=[*program.argv, "acp"],
            env={**self.env, **dict.fromkeys(DISABLE_VARIABLES, "1"), **settings},
            model=f"{PROVIDER}/{model}",
            needs=program.needs,
            apis=("openai",) if brief.gateway else (),
            without=(".config/opencode", ".opencode"),
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_line(line)

    def _program(self) -> Program | None:
        return find_program(self.command, root=self.root, native=NATIVE_GLOB)

    def _not_found(self) -> str:
        return f"the program {self.command!r} was not found; {INSTALL_HINT}"


def build_runtime(options: Mapping[str, Any], root: Path) -> OpencodeRuntime:
    return OpencodeRuntime(
        root=root,
        command=options.get("command") or "opencode",
        args=tuple(options.get("args") or ()),
        env=dict(options.get("env") or {}),
        name=str(options.get("name") or "opencode"),
    )


def _list_permissions(brief: AgentBrief) -> tuple[str, ...]:
    """What it may have and must ask about, places outside included; what it is denied it does not even see."""
    return (
        "external_directory",
        *dict.fromkeys(PERMISSION_NAMES[tool] for tool in brief.tools if tool in PERMISSION_NAMES),
    )


def _build_settings(brief: AgentBrief, model: str) -> dict[str, Any]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{brief.gateway}/openai", "apiKey": f"{{env:{TOKEN_VARIABLE}}}"},
        "models": {model: {"limit": {"context": MAX_CONTEXT_TOKENS, "output": MAX_OUTPUT_TOKENS}}},
    }
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "model": f"{PROVIDER}/{model}",
        "small_model": f"{PROVIDER}/{model}",
        "enabled_providers": [PROVIDER],
        "provider": {PROVIDER: provider},
        "permission": {"*": "deny", **dict.fromkeys(_list_permissions(brief), "ask")},
        "agent": {"title": {"disable": True}},  # a call for a name that nobody reads
        "experimental": {"continue_loop_on_deny": True},  # else its first refusal is its last word
    }
