"""What `codex exec --json` prints, line by line, read into signals.

It does not show the names under which it asked its hook, so that calls are found in the log by what they do. Commands
that end at once are sometimes missing; they were asked for all the same.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.agents.runtime import Acted, CallResult, OutputProblem, RunResult, Signal, TextOutput
from blueflame.model.audit import compute_input_digest
from blueflame.policy.dialects import translate_change

SHELL_PATH = re.compile(r"(/usr/local/bin|/usr/bin|/bin)/(bash|sh|zsh|dash)")
SHELL_FLAGS = ("-lc", "-c")
HARMLESS_ITEMS = ("agent_message", "reasoning", "todo_list", "error")
OUTAGE = re.compile(r"\b(429|5\d\d)\b|stream disconnected|error sending request|[Cc]onnection|timed? ?out")
TRUST_WARNING = "`--dangerously-bypass-hook-trust`"
MAX_DETAIL = 500


def parse_line(line: str) -> tuple[Signal, ...]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return (OutputProblem(f"a line of its output is not JSON: {line[:200]!r}"),)
    if not isinstance(said, dict):
        return (OutputProblem(f"a line of its output is not an object: {line[:200]!r}"),)
    match said.get("type"):
        case "item.started" | "item.completed" as when:
            item = said.get("item")
            return tuple(_parse_item(item, ended=when == "item.completed")) if isinstance(item, dict) else ()
        case "turn.completed":
            return (RunResult(in_words=True),)
        case "turn.failed":
            words = _read_message(said.get("error"))
            return (RunResult(failure="outage" if OUTAGE.search(words) else "error", detail=words, in_words=True),)
        case "error":
            return (OutputProblem(_read_message(said)),)
    return ()  # new kinds come with new versions, and none of them decides anything


def _parse_item(item: Mapping[str, Any], *, ended: bool) -> Iterator[Signal]:
    kind, name = str(item.get("type") or ""), str(item.get("id") or "")
    match kind:
        case "agent_message" if ended:
            yield TextOutput(str(item.get("text") or ""))
        case "error" if ended and not _read_message(item).startswith(TRUST_WARNING):
            yield OutputProblem(_read_message(item))
        case "command_execution":
            yield CallResult(name, denied=_is_declined(item)) if ended else _parse_command(item, name)
        case "file_change":
            yield from _parse_file_change(item, name, ended=ended)
        case _ if kind not in HARMLESS_ITEMS and ended:
            # nobody here knows what it did: without a line of its own in the log that is a gap
            yield Acted(kind or "a nameless item", "", name, by_digest=True)


def _parse_command(item: Mapping[str, Any], name: str) -> Acted:
    command = _unwrap_shell(str(item.get("command") or ""))
    return Acted(
        "Bash", command[:MAX_DETAIL], name, compute_input_digest({"command": command}), open=True, by_digest=True
    )


def _unwrap_shell(shown: str) -> str:
    """What was given to the shell. A program of the agent's own in the shell's place is shown as it stands, so that
    nothing in the log fits it."""
    try:
        words = shlex.split(shown)
    except ValueError:
        return shown
    return words[2] if len(words) == 3 and SHELL_PATH.fullmatch(words[0]) and words[1] in SHELL_FLAGS else shown


def _parse_file_change(item: Mapping[str, Any], name: str, *, ended: bool) -> Iterator[Signal]:
    changes = item.get("changes")
    for n, change in enumerate(changes if isinstance(changes, list) else ()):
        call = f"{name}/{n}"
        if ended:
            yield CallResult(call, denied=_is_declined(item))
        elif isinstance(change, dict):
            done = translate_change(str(change.get("kind")), str(change.get("path")))
            target = str(done.input["file_path"])[:MAX_DETAIL]
            yield Acted(done.tool, target, call, compute_input_digest(done.input), open=True, by_digest=True)


def _is_declined(item: Mapping[str, Any]) -> bool:
    return item.get("status") == "declined"


def _read_message(said: object) -> str:
    text = said.get("message") if isinstance(said, dict) else None
    return (text if isinstance(text, str) and text else "it failed and did not say why")[:MAX_DETAIL]
