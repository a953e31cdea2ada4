"""Pick the turn of a scenario that answers a question, and fill its blanks."""

from __future__ import annotations

import json
import re
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from fnmatch import fnmatchcase
from itertools import count
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from blueflame.testing.model_server.dialect import ModelQuestion, ModelReply, ModelToolCall, OfferedTool, Tokens
from blueflame.testing.model_server.script import (
    ModelScript,
    Scenario,
    ScenarioCondition,
    ScriptCall,
    ScriptTurn,
    ScriptUsage,
)

STRUCTURED_TOOL = "StructuredOutput"
BLANK = re.compile(r"\{\{(\w+)(?:\+(\d+))?\}\}")

# where each agent program names its working directory in the prompt
CWD_PATTERNS = (
    re.compile(r"^\s*-?\s*(?:Primary w|W)orking directory: (.+?)\s*$", re.MULTILINE),  # claude, opencode
    re.compile(r"<cwd>(.+?)</cwd>"),  # codex
    re.compile(r"working in the directory: (.+?)\s*$", re.MULTILINE),  # gemini, older
    re.compile(r"\*\*Workspace Directories:\*\*\s*\n\s*- (.+?)\s*$", re.MULTILINE),  # gemini
)
TIME_FORMATS: Mapping[str, Callable[[float], str]] = {
    "epoch": lambda at: str(int(at)),
    "rfc3339": lambda at: datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z"),
    "http_date": lambda at: format_datetime(datetime.fromtimestamp(int(at), UTC), usegmt=True),
}


class NoScriptedAnswer(Exception):
    """The script has no answer to this question; the message says why."""


class ScriptedAnswer(NamedTuple):
    turn: ScriptTurn
    reply: ModelReply


class ScriptPlayer:
    """Answers by the script. The turn follows from the question alone; only `times` is counted."""

    def __init__(self, script: ModelScript) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._played: Counter[tuple[int, ...]] = Counter()
        self._numbers = count(1)

    def play(self, question: ModelQuestion) -> ScriptedAnswer:
        number, scenario = self._find_scenario(question)
        at = min(question.turn, len(scenario.turns) - 1)
        turn = self._resolve_turn(scenario.turns[at], (number, at))
        with self._lock:
            reply_number = next(self._numbers)
        filled = _fill_turn(turn, _collect_values(scenario.when, question))
        return ScriptedAnswer(filled, _build_reply(filled, question, f"{reply_number:06}"))

    def _find_scenario(self, question: ModelQuestion) -> tuple[int, Scenario]:
        for number, scenario in enumerate(self._script.scenarios):
            if is_match(scenario.when, question):
                return number, scenario
        raise NoScriptedAnswer(
            f"no scenario of the script fits this question (api {question.api}, model {question.model!r}, "
            f"tools {', '.join(question.tool_names) or 'none'}, user {question.user[-200:]!r}); add one to the script"
        )

    def _resolve_turn(self, turn: ScriptTurn, place: tuple[int, ...]) -> ScriptTurn:
        """Return the turn itself for the first `times`, then its `then`."""
        if turn.times is None or turn.then is None:
            return turn
        with self._lock:
            self._played[place] += 1
            again = self._played[place] <= turn.times
        return turn if again else self._resolve_turn(turn.then, (*place, 0))


def is_match(when: ScenarioCondition, question: ModelQuestion) -> bool:
    return (
        (not when.user or re.search(when.user, question.user, re.MULTILINE) is not None)
        and (not when.system or re.search(when.system, question.system, re.MULTILINE) is not None)
        and (not when.model or fnmatchcase(question.model, when.model))
        and (not when.tool or when.tool in question.tool_names)
        and (not when.api or when.api == question.api)
    )


def _collect_values(when: ScenarioCondition, question: ModelQuestion) -> dict[str, str]:
    found = re.search(when.user, question.user, re.MULTILINE) if when.user else None
    named = {name: value for name, value in (found.groupdict() if found else {}).items() if value is not None}
    places = (place.search(question.everything) for place in CWD_PATTERNS)
    cwd = next((place.group(1) for place in places if place), None)
    return ({"cwd": cwd} if cwd else {}) | {"model": question.model} | named


def _fill_turn(turn: ScriptTurn, values: Mapping[str, str]) -> ScriptTurn:
    given = {name: getattr(turn, name) for name in turn.model_fields_set}
    filled = {
        name: _fill_value(value, values)
        for name, value in given.items()
        if name in {"text", "thinking", "structured", "headers", "error", "body"}
    }
    return turn.model_copy(
        update=filled
        | {
            "tool": _fill_call(turn.tool, values) if turn.tool else None,
            "tools": tuple(_fill_call(call, values) for call in turn.tools),
        }
    )


def _fill_call(call: ScriptCall, values: Mapping[str, str]) -> ScriptCall:
    return call.model_copy(update={name: _fill_value(getattr(call, name), values) for name in ScriptCall.model_fields})


def _fill_value(value: Any, values: Mapping[str, str]) -> Any:  # noqa: ANN401 (a script holds any JSON)
    if isinstance(value, str):
        return BLANK.sub(lambda blank: _fill_blank(blank, values), value)
    if isinstance(value, Mapping):
        return {key: _fill_value(entry, values) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_value(entry, values) for entry in value]
    return value


def _fill_blank(blank: re.Match[str], values: Mapping[str, str]) -> str:
    name, later = blank.group(1), int(blank.group(2) or 0)
    if name in TIME_FORMATS:
        return TIME_FORMATS[name](time.time() + later)
    if name not in values:
        known = ", ".join(sorted({*values, *TIME_FORMATS}))
        raise NoScriptedAnswer(f"the script's {blank.group()} has no value in this question; there are {known}")
    return values[name]


def _build_reply(turn: ScriptTurn, question: ModelQuestion, number: str) -> ModelReply:
    calls, text = [_choose_tool(call, question) for call in turn.calls], turn.text
    if turn.is_structured:
        if STRUCTURED_TOOL in question.tool_names:
            calls.append((STRUCTURED_TOOL, turn.structured))
        else:
            text = json.dumps(turn.structured)
    answered = len(text) + len(turn.thinking) + sum(len(json.dumps(arguments)) for _, arguments in calls)
    return ModelReply(
        id=number,
        model=question.model,
        text=text,
        thinking=turn.thinking,
        calls=tuple(ModelToolCall(f"{number}_{at}", name, arguments) for at, (name, arguments) in enumerate(calls)),
        tokens=_count_tokens(turn.usage, asked=question.size, answered=answered),
        wants_usage=question.wants_usage,
    )


def _count_tokens(usage: ScriptUsage, *, asked: int, answered: int) -> Tokens:
    """Estimate four bytes per token where the script has no figure."""
    return Tokens(
        input=max(1, asked // 4) if usage.input is None else usage.input,
        output=max(1, answered // 4) + usage.thinking if usage.output is None else usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        cache_write_1h=usage.cache_write_1h,
        thinking=usage.thinking,
        web_search=usage.web_search,
    )


def _choose_tool(call: ScriptCall, question: ModelQuestion) -> tuple[str, Mapping[str, Any] | str]:
    if call.name:
        return call.name, call.input
    tools = {tool.name: tool for tool in question.tools}
    act = "shell" if call.shell else "write" if call.write else "read"
    for name, arguments in TOOL_ARGUMENTS[act].items():
        if name in tools:
            return name, arguments(call, tools[name])
    if act == "write" and any(name in tools for name in TOOL_ARGUMENTS["shell"]):
        return _choose_tool(ScriptCall(shell=_format_shell_write(call)), question)
    raise NoScriptedAnswer(
        f"no offered tool is known to {act}: {', '.join(tools) or 'none was offered'}; name the tool in the script"
    )


def _format_shell_write(call: ScriptCall) -> str:
    path = shlex.quote(call.write)
    folder = shlex.quote(str(PurePosixPath(call.write).parent))
    return f"mkdir -p {folder} && printf %s {shlex.quote(call.content)} > {path}"


def _format_patch(call: ScriptCall) -> str:
    lines = "".join(f"+{line}\n" for line in call.content.splitlines())
    return f"*** Begin Patch\n*** Add File: {call.write}\n{lines}*** End Patch\n"


Arguments = Callable[[ScriptCall, OfferedTool], "Mapping[str, Any] | str"]
TOOL_ARGUMENTS: Mapping[str, Mapping[str, Arguments]] = {
    "shell": {
        "Bash": lambda call, _: {"command": call.shell, "description": "Run a command"},
        "exec_command": lambda call, _: {"cmd": call.shell},
        "shell_command": lambda call, _: {"command": call.shell},
        "shell": lambda call, _: {"command": ["bash", "-lc", call.shell]},
        "run_shell_command": lambda call, _: {"command": call.shell, "description": "Run a command"},
        "bash": lambda call, _: {"command": call.shell, "description": "Run a command"},
    },
    "write": {
        "Write": lambda call, _: {"file_path": call.write, "content": call.content},
        "apply_patch": lambda call, tool: _format_patch(call) if tool.freeform else {"input": _format_patch(call)},
        "write_file": lambda call, _: {"file_path": call.write, "content": call.content},
        "write": lambda call, _: {"filePath": call.write, "content": call.content},
    },
    "read": {
        "Read": lambda call, _: {"file_path": call.read},
        "read_file": lambda call, tool: {
            "absolute_path" if "absolute_path" in tool.keys else "file_path": call.read,
        },
        "read": lambda call, _: {"filePath": call.read},
    },
}
