"""The acp runtime: any agent that speaks the Agent Client Protocol, driven by our client (client.py).

`runtimes.<name>: {kind: acp, command: "claude-agent-acp"}`; in `args` and `env`, `{gateway}`, `{token}` and `{model}`
are filled in, for agents that take the address of their model there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import blueflame
from blueflame.agents.hook import HOOK_VARIABLE, find_hook
from blueflame.agents.programs import (
    CommandRuntime,
    build_gateway_variables,
    build_python_command,
    check_model,
    check_variables,
    fill_placeholders,
    join_prompt,
)
from blueflame.agents.runtime import (
    MAX_DETAIL_CHARS,
    AgentBrief,
    AgentLaunch,
    RunResult,
    Signal,
    parse_json_line,
    parse_own_message,
)
from blueflame.agents.structured_output import add_schema_to_prompt
from blueflame.git.command import build_agent_identity
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.session.unsupported_settings import is_program_named
from blueflame.system.files import write_atomically

LIBRARY_MODULES = ("acp", "pydantic", "pydantic_core", "typing_extensions", "annotated_types", "typing_inspection")
INSTALL_HINT = "install it with `pip install 'blueflame[acp]'`"
GATEWAY_API = re.compile(r"\{gateway\}/(anthropic|openai|gemini)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpRuntime(CommandRuntime):
    wanted: ClassVar[str] = "the program that speaks the Agent Client Protocol"
    name: str = "acp"

    def describe_program(self) -> str:
        program = self.find_program()
        return f"{program.path.name} at {program.path}" if program else ""

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = self.require_program()
        model = brief.model if self._is_claude() else check_model(brief.model, brief.role, self.name)
        values = {"gateway": brief.gateway, "token": brief.token, "model": model}
        apis = self._find_apis() if brief.gateway else ()
        return build_client_launch(
            brief,
            directory,
            argv=[*program.argv, *(fill_placeholders(word, values) for word in self.args)],
            env=build_gateway_variables(apis, self.env, values),
            model=model,
            needs=program.needs,
            apis=apis,
            without=(".claude", ".claude.json", ".gemini", ".codex", ".config/opencode", ".opencode"),
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_json_line(line, parse_message)

    def iter_problems(self) -> Iterator[str]:
        if self.find_program() is None:
            yield self.describe_missing()
        yield from find_library_problems()
        yield from check_variables(self.name, self.env, "(CLAUDE|GEMINI_CLI|OPENCODE)_.*")

    def _is_claude(self) -> bool:
        return is_program_named(self.command, "claude")

    def _find_apis(self) -> tuple[str, ...]:
        """Find the APIs that the settings name as {gateway}/API, else the one of the program's name."""
        named = GATEWAY_API.findall("\n".join((*self.args, *self.env.values())))
        if named:
            return tuple(dict.fromkeys(named))
        if self._is_claude():
            return ("anthropic",)
        return ("gemini",) if is_program_named(self.command, "gemini") else ("openai",)


build_runtime = AcpRuntime.from_options


def find_library_problems() -> tuple[str, ...]:
    lacking = [name for name in LIBRARY_MODULES if find_spec(name) is None]
    if not lacking:
        return ()
    return (f"the Python library agent-client-protocol is not installed ({lacking[0]}); {INSTALL_HINT}",)


def build_client_launch(
    brief: AgentBrief,
    directory: Path,
    *,
    argv: list[str],
    env: Mapping[str, str],
    model: str,
    needs: tuple[Path, ...],
    apis: tuple[str, ...],
    without: tuple[str, ...],
) -> AgentLaunch:
    """Start our client in the agent's place, with the agent as its child. Raises Refused without the library.

    `without`: paths in its HOME that are removed before it starts.
    """
    if problems := find_library_problems():
        raise Refused(problems[0])
    orders = directory / "acp.json"
    content = {"argv": argv, "cwd": brief.worktree, "model": model, "without": list(without)}
    write_atomically(orders, json.dumps(content))
    package = Path(blueflame.__file__).parent
    libraries = _find_library_paths()
    folders = [path.parent for path in (package, *libraries)]
    return AgentLaunch(
        argv=build_python_command("blueflame.agents.acp.client", folders, orders),
        env={**build_agent_identity(brief.agent_id), **env, HOOK_VARIABLE: str(find_hook())},
        stdin=add_schema_to_prompt(join_prompt((brief.system, brief.prompt)), brief.schema),
        needs=(package, *libraries, orders, find_hook(), *needs),
        apis=apis,
    )


def _find_library_paths() -> tuple[Path, ...]:
    """Find the packages' paths without an import; the agent sees nothing beside them."""
    found = [spec for name in LIBRARY_MODULES if (spec := find_spec(name)) is not None and spec.origin is not None]
    origins = [Path(str(spec.origin)) for spec in found]
    return tuple(origin.parent if origin.name == "__init__.py" else origin for origin in origins)


def parse_message(message: Mapping[str, Any]) -> Iterator[Signal]:
    """Parse one message of our client."""
    if message.get("type") != "finished":
        yield parse_own_message(message)
        return
    failure, detail = str(message.get("failure") or ""), str(message.get("detail") or "")
    yield RunResult(failure=failure, detail=detail[:MAX_DETAIL_CHARS], in_words=True)
