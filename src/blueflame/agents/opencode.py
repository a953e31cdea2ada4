"""The opencode runtime: `opencode acp` with our ACP client, configured to ask before everything it does.

Its own plugins could ask our hook as well, but they install packages when it starts, which fails in a sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from blueflame.agents.acp import build_client_launch, find_library_problems, parse_message
from blueflame.agents.programs import NpmPackage, NpmRuntime, check_model
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal, parse_json_line
from blueflame.lazy_dataclass import dataclass

TOKEN_VARIABLE = "OPENCODE_GATEWAY_TOKEN"  # noqa: S105 (the variable's name)
PROVIDER = "blueflame"
MAX_CONTEXT_TOKENS, MAX_OUTPUT_TOKENS = 200_000, 32_000  # it needs a size for a model that it does not know

DISABLE_VARIABLES = (
    *("OPENCODE_DISABLE_PROJECT_CONFIG", "OPENCODE_PURE", "OPENCODE_DISABLE_DEFAULT_PLUGINS"),
    *("OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_EXTERNAL_SKILLS", "OPENCODE_DISABLE_AUTOUPDATE"),
    *("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_SHARE"),
)
"""No settings or plugins of the repository, which could allow everything, and nothing from the network."""

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
"""The policy's tools -> opencode's permissions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeRuntime(NpmRuntime):
    package: ClassVar[NpmPackage] = NpmPackage(
        program="opencode",
        package="opencode-ai",
        min_version="1.18.33",
        own_variables="OPENCODE.*|OPENAI_.*",
        native="opencode-*/bin/opencode",
    )
    command: str = "opencode"
    name: str = "opencode"

    def iter_problems(self) -> Iterator[str]:
        yield from NpmRuntime.iter_problems(self)
        yield from find_library_problems()

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = self.require_program()
        model = check_model(brief.model, brief.role, "opencode")
        settings = json.dumps(_build_settings(brief, model))
        return build_client_launch(
            brief,
            directory,
            argv=[*program.argv, "acp"],
            env={
                **self.env,
                **dict.fromkeys(DISABLE_VARIABLES, "1"),
                "OPENCODE_CONFIG_CONTENT": settings,
                TOKEN_VARIABLE: brief.token or "none",
            },
            model=f"{PROVIDER}/{model}",
            needs=program.needs,
            apis=("openai",) if brief.gateway else (),
            without=(".config/opencode", ".opencode"),
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_json_line(line, parse_message)


build_runtime = OpencodeRuntime.from_options


def _list_permissions(brief: AgentBrief) -> tuple[str, ...]:
    """List the permissions that it must ask for, also outside of the worktree. It does not see denied tools."""
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
        "agent": {"title": {"disable": True}},  # a model call for a title that is not used
        "experimental": {"continue_loop_on_deny": True},  # else it stops at the first refusal
    }
