"""Translate tool calls of the Agent Client Protocol by their kind, input and locations.

Agents send a call in several messages, and not all of it when they ask for permission. What cannot be translated is
None, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from posixpath import join, normpath
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.policy.dialects import ToolUse
from blueflame.policy.dialects.codex_patch import BadPatch, parse_patch

PATH_NAMES = ("file_path", "filePath", "filepath", "path", "absolute_path", "notebook_path", "abs_path")
FOLDER_NAMES = ("workdir", "cwd", "directory", "dir_path", "working_directory")
PATCH_NAMES = ("patchText", "patch", "patch_text")
WRITING_KINDS = ("edit", "delete", "move")
ELLIPSES = ("...", "…")

TOOL_NAMES: Mapping[str, str] = {
    "bash": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "multiedit": "MultiEdit",
    "glob": "Glob",
    "grep": "Grep",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "todowrite": "TodoWrite",
    "task": "Task",
    "skill": "Skill",
}
"""Our tools by the names that agents use, in lower case; any other name is kept, and refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpCall:
    """What an agent has sent about one call so far."""

    name: str = ""  # of the tool, from the first message
    kind: str = ""
    title: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[str, ...] = ()  # paths named outside the input
    words: tuple[str, ...] = ()  # texts shown to the user
    announced: bool = False  # it was announced before the permission request


def update_call(known: AcpCall, message: Mapping[str, Any]) -> AcpCall:
    """Return the call with one more message, which has the protocol's names in snake case."""
    given = message.get("raw_input")
    content = [each for each in message.get("content") or () if isinstance(each, Mapping)]
    kind = str(message.get("kind") or "")
    return replace(
        known,
        name=known.name or _read_tool_name(message) or str(message.get("title") or ""),
        # some ask again for a path outside with the kind "other": the call itself stays the same
        kind=known.kind if kind in ("", "other") and known.kind else kind,
        title=str(message.get("title") or known.title),
        input={**known.input, **given} if isinstance(given, Mapping) else known.input,
        places=tuple(dict.fromkeys((*known.places, *_list_places(message, content)))),
        words=tuple(dict.fromkeys((*known.words, *_list_texts(content)))),
    )


def _read_tool_name(message: Mapping[str, Any]) -> str:
    meta = message.get("field_meta")
    claude = meta.get("claudeCode") if isinstance(meta, Mapping) else None
    return str(claude.get("toolName") or "") if isinstance(claude, Mapping) else ""


def _list_places(message: Mapping[str, Any], content: list[Mapping[str, Any]]) -> Iterator[str]:
    for each in (*(message.get("locations") or ()), *content):
        if isinstance(each, Mapping) and isinstance(each.get("path"), str):
            yield each["path"]


def _list_texts(content: list[Mapping[str, Any]]) -> Iterator[str]:
    for each in content:
        inner = each.get("content")
        if isinstance(inner, Mapping) and isinstance(inner.get("text"), str):
            yield inner["text"]


def is_missing_tool(known: AcpCall) -> bool:
    """Return whether the agent's program reports a tool that it does not have (opencode sends that as a call)."""
    return known.title in ("invalid", "Invalid Tool") and "error" in known.input and "tool" in known.input


def translate_acp_call(known: AcpCall, cwd: str) -> tuple[ToolUse, ...] | None:
    """Return the uses of our tools, all of which must be allowed; None if the call is unclear."""
    tool = TOOL_NAMES.get(known.name.lower(), "")
    match known.kind:
        case "execute":
            return _translate_execute(known, cwd)
        case kind if kind in WRITING_KINDS:
            return _use_on_each("Edit", _find_written_paths(known, cwd))
        case "read":
            return _use_on_each("Read", tuple(_list_paths(known, cwd)))
        case "search":
            return _translate_search(known, tool)
        case "fetch":
            url = known.input.get("url")
            return (ToolUse("WebFetch", {"url": url}),) if isinstance(url, str) else None
    return (ToolUse(tool or known.name or "a nameless tool", {}),)


def _use_on_each(tool: str, paths: tuple[str, ...] | None) -> tuple[ToolUse, ...] | None:
    return tuple(ToolUse(tool, {"file_path": path}) for path in paths) if paths else None


def _translate_execute(known: AcpCall, cwd: str) -> tuple[ToolUse, ...] | None:
    command = known.input.get("command")
    folders = {normpath(join(cwd, str(known.input[name]))) for name in FOLDER_NAMES if known.input.get(name)}
    if "workdir" in known.input:  # opencode names its cwd first, then the requested folder
        folders = {normpath(join(cwd, str(known.input["workdir"])))}
    if command is None and not known.input:
        command = _find_shown_command(known)
    if not isinstance(command, str) or not command or len(folders) > 1:
        return None
    return (ToolUse("Bash", {"command": command}, next(iter(folders), "")),)


def _find_shown_command(known: AcpCall) -> str | None:
    """Return the title as the command of an agent that sends no input, unless it is cut or runs elsewhere."""
    elsewhere = any(word.startswith("[in ") for word in known.words)
    whole = known.title and "\n" not in known.title and not known.title.endswith(ELLIPSES)
    return known.title if whole and not elsewhere else None


def _find_written_paths(known: AcpCall, cwd: str) -> tuple[str, ...] | None:
    found = list(_list_paths(known, cwd))
    for name in PATCH_NAMES:
        if name in known.input:
            try:
                found += [normpath(join(cwd, each.path)) for each in parse_patch(str(known.input[name]).strip())]
            except BadPatch:
                return None
    return tuple(dict.fromkeys(found))


def _list_paths(known: AcpCall, cwd: str) -> Iterator[str]:
    files = known.input.get("files")
    if isinstance(files, list):  # other paths only repeat these for display
        inner = [each for each in files if isinstance(each, Mapping)]
        named = [str(each[name]) for each in inner for name in ("filePath", "movePath") if each.get(name)]
    else:
        named = [value for name in PATH_NAMES if isinstance(value := known.input.get(name), str) and value]
    yield from dict.fromkeys(normpath(join(cwd, path)) for path in (*named, *known.places))


def _translate_search(known: AcpCall, tool: str) -> tuple[ToolUse, ...]:
    """Translate a search; without an input by its title, for searches that are only judged afterwards."""
    pattern = known.input.get("pattern")
    given = {"pattern": pattern if isinstance(pattern, str) else known.title or "*"}
    where = known.input.get("path") or next(iter(known.places), None)
    return (ToolUse(tool if tool in ("Glob", "Grep") else "Grep", {**given, **({"path": where} if where else {})}),)
