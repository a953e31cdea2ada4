"""The scripted runtime: a real process that plays a script as an agent, for tests, demos and trial runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blueflame.agents import fence
from blueflame.agents.hook import HOOK_VARIABLE, find_hook
from blueflame.agents.programs import build_fence_variables, build_python_command
from blueflame.agents.runtime import (
    AgentBrief,
    AgentLaunch,
    OutputProblem,
    Signal,
    StructuredOutput,
    TextOutput,
    UsageReport,
    parse_json_line,
    parse_own_message,
)
from blueflame.agents.scripted import player
from blueflame.agents.scripted.script import BUILT_IN_SCRIPT, Script, build_attempt_steps, load_script
from blueflame.agents.scripted.steps import TOKEN_FIELDS
from blueflame.git.command import build_agent_identity
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import UsageError
from blueflame.model.spend import Spend, to_micro_usd
from blueflame.system.files import write_atomically

LEDGER_VARIABLE = "BLUEFLAME_LEDGER"


@dataclass(frozen=True, slots=True)
class ScriptedRuntime:
    script: Script = BUILT_IN_SCRIPT
    reports_end: bool = False  # a player whose script crashes it prints no result

    def find_problems(self) -> tuple[str, ...]:
        return ()

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        program = directory / "program.json"
        content = {
            "attempt": brief.attempt,
            "watched": brief.watched,
            "fence": fence.__file__,
            "steps": build_attempt_steps(self.script, brief),
        }
        write_atomically(program, json.dumps(content))  # the agent of an earlier launch may be reading it
        # Imported as a single module, not as part of the package, which would load much more.
        folder = Path(player.__file__).parent
        argv = build_python_command("player", (folder,), program)
        needs = (folder, program, Path(fence.__file__))
        return AgentLaunch(
            argv=argv, env=_build_environment(brief), stdin=brief.prompt, needs=needs, questions=brief.questions
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_json_line(line, _parse_message)


def build_runtime(options: Mapping[str, Any], root: Path) -> ScriptedRuntime:
    """`script` is a path, relative to `root`."""
    path = options.get("script")
    if not path:
        return ScriptedRuntime()
    if not isinstance(path, str | Path):
        raise UsageError(f"runtimes.scripted.script must be the path of a script, not {path!r}")
    return ScriptedRuntime(load_script(root / path))


def _build_environment(brief: AgentBrief) -> dict[str, str]:
    ledger = os.environ.get(LEDGER_VARIABLE)
    return (
        build_agent_identity(brief.agent_id)
        | {HOOK_VARIABLE: str(find_hook())}
        | ({LEDGER_VARIABLE: ledger} if ledger else {})
        | build_fence_variables(brief)
    )


def _parse_message(message: Mapping[str, Any]) -> Iterator[Signal]:
    match message.get("type"):
        case "usage":
            yield _parse_usage(message)
        case "result":
            yield from _parse_result(message)
        case _:
            yield parse_own_message(message)


def _parse_usage(message: Mapping[str, Any]) -> Signal:
    try:
        tokens = {name: _check_count(message.get(name, 0)) for name in TOKEN_FIELDS}
        money = to_micro_usd(float(message.get("cost_usd", 0)))
    except (TypeError, ValueError, OverflowError):
        return OutputProblem(f"its usage cannot be read: {message!r:.200}")
    if money < 0:
        return OutputProblem(f"its usage is negative: {message!r:.200}")
    return UsageReport(Spend(micro_usd=money, **tokens))


def _check_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value


def _parse_result(message: Mapping[str, Any]) -> Iterator[Signal]:
    output, text = message.get("structured_output"), message.get("result")
    if output is not None and not isinstance(output, dict):
        yield OutputProblem("its structured output is not an object")
        return
    if text:
        yield TextOutput(str(text))
    if output is not None:
        yield StructuredOutput(output)
