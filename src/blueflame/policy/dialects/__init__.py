"""Translate the tool calls of other agents into the tools that policies name.

An unknown tool keeps its name, so the policy refuses it. Hooks and the agents' own streams use the same translation,
so that the two can be compared. Reading hooks belongs to `tool_calls`, reading streams to `agents/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from posixpath import join, normpath
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.policy import ASK_TOOL
from blueflame.policy.dialects.codex_patch import BadPatch, PatchAction, parse_patch

CLAUDE, CODEX, GEMINI = "claude", "codex", "gemini"
GEMINI_ASK = "mcp_blueflame_ask"  # its name for ASK_TOOL
EVENTS = {CLAUDE: ("PreToolUse",), CODEX: ("PreToolUse",), GEMINI: ("BeforeTool", "PreToolUse")}
"""The event before a tool is used, by dialect. The canary always comes as Claude's."""

PATCH_HEREDOC = re.compile(r"apply_patch <<'([A-Za-z_]+)'\n(.*\n)\1\n?", re.DOTALL)
"""The only shell command that is judged as a patch: nothing before it, nothing after it."""

URL = re.compile(r"https?://[^\s<>\"']+")


class UntranslatableCall(ValueError):
    """A call whose effect is unclear; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A use of one of our tools. `folder`: where it runs, if not in the agent's cwd."""

    tool: str
    input: Mapping[str, Any]
    folder: str = ""


def translate_call(dialect: str, tool: str, given: Mapping[str, Any], cwd: str) -> tuple[ToolUse, ...]:
    """Return at least one use; all of them must be allowed. Raises UntranslatableCall."""
    return TRANSLATORS[dialect](tool, given, cwd)


def _translate_codex(tool: str, given: Mapping[str, Any], cwd: str) -> tuple[ToolUse, ...]:
    command = given.get("command")
    if tool == "apply_patch":
        return _translate_patch(command, cwd)
    if tool == "view_image":
        return (ToolUse("Read", {"file_path": given.get("path")}),)
    if tool == "Bash" and isinstance(command, str) and (patch := PATCH_HEREDOC.fullmatch(command)):
        return _translate_patch(patch[2], cwd)
    return (ToolUse(tool, given),)


def _translate_patch(patch: object, cwd: str) -> tuple[ToolUse, ...]:
    if not isinstance(patch, str):
        raise UntranslatableCall("the patch is not a string; give apply_patch only a patch")
    try:
        touched = parse_patch(patch)
    except BadPatch as e:
        raise UntranslatableCall(f"{e}; write a plain patch, or one file at a time") from e
    return tuple(translate_change(each.change, normpath(join(cwd, each.path))) for each in touched)


def translate_change(change: str, path: str) -> ToolUse:
    """Translate a change to a file, as patches and Codex's stream name it."""
    return ToolUse("Write" if change in (PatchAction.ADD, PatchAction.MOVED_HERE) else "Edit", {"file_path": path})


@dataclass(frozen=True, slots=True)
class _GeminiTool:
    """A Gemini tool: our tool, our names of its inputs, and the inputs that are dropped."""

    tool: str
    names: Mapping[str, str]
    dropped: frozenset[str] = frozenset()


_FILE = {"file_path": "file_path", "absolute_path": "file_path"}
_FOLDER = {"dir_path": "path", "path": "path"}
_FILTERS = frozenset({"ignore", "file_filtering_options", "exclude_pattern"})
_GREP = _GeminiTool("Grep", {**_FOLDER, "include": "glob", "include_pattern": "glob"}, _FILTERS)

_GEMINI_CALLS: Mapping[str, _GeminiTool] = {
    "run_shell_command": _GeminiTool("Bash", {}, frozenset({"dir_path", "directory"})),
    "write_file": _GeminiTool("Write", _FILE),
    "replace": _GeminiTool("Edit", {**_FILE, "instruction": "explanation"}),
    "read_file": _GeminiTool("Read", _FILE),
    "list_directory": _GeminiTool("Read", {"dir_path": "file_path", "path": "file_path"}, _FILTERS),
    "glob": _GeminiTool("Glob", _FOLDER, _FILTERS),
    "grep_search": _GREP,
    "search_file_content": _GREP,
    "google_web_search": _GeminiTool("WebSearch", {}),
    "write_todos": _GeminiTool("TodoWrite", {}),
    "activate_skill": _GeminiTool("Skill", {"name": "skill"}),
}

GEMINI_TOOLS: Mapping[str, tuple[str, ...]] = {
    "Bash": ("run_shell_command",),
    "Write": ("write_file",),
    "Edit": ("replace",),
    "Read": ("read_file", "list_directory"),
    "Glob": ("glob",),
    "Grep": ("grep_search",),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("google_web_search",),
    "TodoWrite": ("write_todos",),
}
"""Gemini's tools for each tool that a policy allows."""


def _translate_gemini(tool: str, given: Mapping[str, Any], _cwd: str) -> tuple[ToolUse, ...]:
    if tool == "web_fetch":
        return (_translate_fetch(given),)
    if tool == GEMINI_ASK:
        return (ToolUse(ASK_TOOL, given),)
    word = _GEMINI_CALLS.get(tool)
    if word is None:
        return (ToolUse(tool, given),)
    renamed = [(word.names.get(name, name), value) for name, value in given.items() if name not in word.dropped]
    if len({name for name, _ in renamed}) != len(renamed):
        raise UntranslatableCall(f"{tool} got one input under two names; give it once")
    return (ToolUse(word.tool, dict(renamed), _read_folder(given) if word.tool == "Bash" else ""),)


def _read_folder(given: Mapping[str, Any]) -> str:
    named = [given[name] for name in ("dir_path", "directory") if given.get(name)]
    if len(named) > 1 or not all(isinstance(each, str) for each in named):
        raise UntranslatableCall(
            "run_shell_command names its folder in more than one way; give dir_path once, as a text"
        )
    return named[0] if named else ""


def _translate_fetch(given: Mapping[str, Any]) -> ToolUse:
    asked = given.get("prompt")
    found = URL.findall(asked) if isinstance(asked, str) else []
    if len(found) != 1:
        raise UntranslatableCall("web_fetch must name exactly one URL that begins with https://")
    return ToolUse("WebFetch", {"url": found[0], "prompt": asked})


TRANSLATORS: Mapping[str, Callable[[str, Mapping[str, Any], str], tuple[ToolUse, ...]]] = {
    CLAUDE: lambda tool, given, _: (ToolUse(tool, given),),
    CODEX: _translate_codex,
    GEMINI: _translate_gemini,
}
DIALECTS = tuple(TRANSLATORS)
