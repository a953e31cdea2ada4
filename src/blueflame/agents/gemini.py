"""The gemini runtime: the Gemini CLI without a person, asking our hook before each tool and our gateway for a model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blueflame.agents.gemini_stream import read_line
from blueflame.agents.hook import DEADLINE, hook_path
from blueflame.agents.programs import Program, bad_variables, find_program, own_model, version_problem
from blueflame.agents.runtime import Brief, Launch, Signal
from blueflame.agents.structured_output import with_schema
from blueflame.git.commit_identity import commit_identity
from blueflame.model.errors import Refused
from blueflame.policy.dialects import GEMINI_TOOLS
from blueflame.system.files import write_whole

OLDEST = "0.61.0"
HOW_TO_GET_IT = f"install it with `npm install -g @google/gemini-cli@{OLDEST}`, or name it in runtimes.gemini.command"
FRESH = """\
rm -rf "$HOME/.gemini" && mkdir -p "$HOME/.gemini" && cp "$1" "$HOME/.gemini/settings.json" || exit 1
shift && exec "$@"
"""
"""Its settings as we wrote them, whatever a setup command has left in its HOME. It takes others only from root."""

QUIET = {"GEMINI_CLI_NO_RELAUNCH": "true", "NO_BROWSER": "true", "GEMINI_TELEMETRY_ENABLED": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemini:
    root: Path
    command: str = "gemini"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = "gemini"
    finishes: bool = True

    def found(self) -> str:
        """For people: which one would be started."""
        program = self._program()
        return f"gemini at {program.path}" if program else ""

    def problems(self) -> tuple[str, ...]:
        program = self._program()
        if program is None:
            return (self._not_found(),)
        old = version_problem(program, "gemini", OLDEST, HOW_TO_GET_IT)
        added = (f"runtimes.{self.name}.args: gemini takes none from a person; take them out",) if self.args else ()
        return (*((old,) if old else ()), *added, *bad_variables(self.name, self.env, "GEMINI_.*|GOOGLE_.*"))

    def launch(self, brief: Brief, *, directory: Path) -> Launch:
        program = self._program()
        if program is None:
            raise Refused(self._not_found())
        model = own_model(brief.model, brief.role, "gemini")  # without one it asks another model which to take
        settings = directory / "gemini-settings.json"
        write_whole(settings, json.dumps(_settings(brief), indent=1))
        return Launch(
            argv=(
                *("/bin/sh", "-c", FRESH, "gemini", str(settings)),
                *program.argv,
                *("--model", model, "--output-format", "stream-json"),
                *("--approval-mode", "yolo", "--skip-trust"),  # the hook says no, and nobody is there to be asked
                *("--extensions", "none"),
            ),
            env={**commit_identity(brief.agent_id), **self.env, **QUIET, **_model_door(brief)},
            stdin=with_schema("\n\n".join(filter(None, (brief.system, brief.prompt))), brief.schema),
            needs=(*program.needs, hook_path(), settings),
            apis=("gemini",) if brief.gateway else (),
            dialect="gemini",
        )

    def read(self, line: str) -> tuple[Signal, ...]:
        return read_line(line)

    def _program(self) -> Program | None:
        return find_program(self.command, root=self.root)

    def _not_found(self) -> str:
        return f"the program {self.command!r} was not found, or no node to run it; {HOW_TO_GET_IT}"


def gemini(options: Mapping[str, Any], root: Path) -> Gemini:
    return Gemini(
        root=root,
        command=options.get("command") or "gemini",
        args=tuple(options.get("args") or ()),
        env=dict(options.get("env") or {}),
        name=str(options.get("name") or "gemini"),
    )


def _model_door(brief: Brief) -> dict[str, str]:
    if not brief.gateway:
        return {}
    return {"GOOGLE_GEMINI_BASE_URL": f"{brief.gateway}/gemini", "GEMINI_API_KEY": brief.token}


def _settings(brief: Brief) -> dict[str, Any]:
    """Of its HOME: with --skip-trust those of the repository are not read, which tests/contracts/agents holds it to."""
    hook = {
        "type": "command",
        "name": "blueflame",
        "command": shlex.quote(str(hook_path())),
        "timeout": DEADLINE * 1000,  # milliseconds here
    }
    return {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "checkpointing": {"enabled": False}},
        "tools": {"core": _offered(brief)},
        "hooksConfig": {"enabled": True, "disabled": []},
        "hooks": {"BeforeTool": [{"matcher": "*", "hooks": [hook]}]},
    }


def _offered(brief: Brief) -> list[str]:
    """An empty list would mean: all that it has."""
    return sorted({name for tool in brief.tools for name in GEMINI_TOOLS.get(tool, ())}) or ["none_at_all"]
