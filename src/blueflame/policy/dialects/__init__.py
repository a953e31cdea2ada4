"""What the tools of other agents are in the policy's words: one call of theirs, the calls of ours that it amounts to.

A tool that is not known here keeps its name, and so is refused by the policy. The same words serve for what a hook
asks and for what an agent's own stream shows, so that the two can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from posixpath import join, normpath
from typing import Any

from blueflame.policy.dialects.codex_patch import BadPatch, Change, touched_by

CLAUDE, CODEX, GEMINI = "claude", "codex", "gemini"
EVENTS = {CLAUDE: ("PreToolUse",), CODEX: ("PreToolUse",), GEMINI: ("BeforeTool", "PreToolUse")}
"""What each calls the moment before a tool is used. The canary always comes in Claude's words."""

HEREDOC = re.compile(r"apply_patch <<'([A-Za-z_]+)'\n(.*\n)\1\n?", re.DOTALL)
"""The one form of a patch in a shell command that is judged as a patch: nothing before it, nothing behind it."""

URL = re.compile(r"https?://[^\s<>\"']+")


class Untranslatable(ValueError):
    """Nobody knows what the call would touch; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Meant:
    """A use of one of our tools. `folder`: where it happens, when that is not where the agent stands."""

    tool: str
    input: Mapping[str, Any]
    folder: str = ""


def meant(dialect: str, tool: str, given: Mapping[str, Any], cwd: str) -> tuple[Meant, ...]:
    """At least one; all of them must be allowed. Raises Untranslatable."""
    return TRANSLATORS[dialect](tool, given, cwd)


def _as_it_is(tool: str, given: Mapping[str, Any], _cwd: str) -> tuple[Meant, ...]:
    return (Meant(tool, given),)


def _codex(tool: str, given: Mapping[str, Any], cwd: str) -> tuple[Meant, ...]:
    command = given.get("command")
    if tool == "apply_patch":
        return _patched(command, cwd)
    if tool == "view_image":
        return (Meant("Read", {"file_path": given.get("path")}),)
    if tool == "Bash" and isinstance(command, str) and (patch := HEREDOC.fullmatch(command)):
        return _patched(patch[2], cwd)
    return (Meant(tool, given),)


def _patched(patch: object, cwd: str) -> tuple[Meant, ...]:
    if not isinstance(patch, str):
        raise Untranslatable("the patch is not a text; give apply_patch a patch and nothing else")
    try:
        touched = touched_by(patch)
    except BadPatch as e:
        raise Untranslatable(f"{e}; write a plain patch, or one file at a time") from e
    return tuple(written(each.change, normpath(join(cwd, each.path))) for each in touched)


def written(change: str, path: str) -> Meant:
    """A change to a file, as patches and Codex's own stream name it."""
    return Meant("Write" if change in (Change.ADD, Change.MOVED_HERE) else "Edit", {"file_path": path})


@dataclass(frozen=True, slots=True)
class _Word:
    """A tool of Gemini's: what it is here, how its inputs are called here, and which of them only narrow it down."""

    tool: str
    names: Mapping[str, str]
    dropped: frozenset[str] = frozenset()


_FILE = {"file_path": "file_path", "absolute_path": "file_path"}
_FOLDER = {"dir_path": "path", "path": "path"}
_FILTERS = frozenset({"ignore", "file_filtering_options", "exclude_pattern"})
_GREP = _Word("Grep", {**_FOLDER, "include": "glob", "include_pattern": "glob"}, _FILTERS)

_GEMINI: Mapping[str, _Word] = {
    "run_shell_command": _Word("Bash", {}, frozenset({"dir_path", "directory"})),
    "write_file": _Word("Write", _FILE),
    "replace": _Word("Edit", {**_FILE, "instruction": "explanation"}),
    "read_file": _Word("Read", _FILE),
    "list_directory": _Word("Read", {"dir_path": "file_path", "path": "file_path"}, _FILTERS),
    "glob": _Word("Glob", _FOLDER, _FILTERS),
    "grep_search": _GREP,
    "search_file_content": _GREP,
    "google_web_search": _Word("WebSearch", {}),
    "write_todos": _Word("TodoWrite", {}),
    "activate_skill": _Word("Skill", {"name": "skill"}),
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
"""What Gemini is offered for each tool that a policy allows."""


def _gemini(tool: str, given: Mapping[str, Any], _cwd: str) -> tuple[Meant, ...]:
    if tool == "web_fetch":
        return (_fetched(given),)
    word = _GEMINI.get(tool)
    if word is None:
        return (Meant(tool, given),)
    renamed = [(word.names.get(name, name), value) for name, value in given.items() if name not in word.dropped]
    if len({name for name, _ in renamed}) != len(renamed):
        raise Untranslatable(f"{tool} was given the same input under two names; give it once")
    return (Meant(word.tool, dict(renamed), _folder(given) if word.tool == "Bash" else ""),)


def _folder(given: Mapping[str, Any]) -> str:
    named = [given[name] for name in ("dir_path", "directory") if given.get(name)]
    if len(named) > 1 or not all(isinstance(each, str) for each in named):
        raise Untranslatable("run_shell_command names its folder in more than one way; give dir_path once, as a text")
    return named[0] if named else ""


def _fetched(given: Mapping[str, Any]) -> Meant:
    asked = given.get("prompt")
    found = URL.findall(asked) if isinstance(asked, str) else []
    if len(found) != 1:
        raise Untranslatable("web_fetch is to name exactly one address that begins with https://")
    return Meant("WebFetch", {"url": found[0], "prompt": asked})


TRANSLATORS: Mapping[str, Callable[[str, Mapping[str, Any], str], tuple[Meant, ...]]] = {
    CLAUDE: _as_it_is,
    CODEX: _codex,
    GEMINI: _gemini,
}
DIALECTS = tuple(TRANSLATORS)
