"""Refuse what lets a model's provider reach other hosts, or changes the price, on behalf of an agent.

The sandbox has no network, but a provider has: it fetches addresses, runs code and calls other servers if a request
says so. Such a request is refused before it is sent, unless a person has allowed the feature by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from blueflame.gateway.model_api.asked import normalize_key
from blueflame.system.http import RequestRefused

_OTHER_SERVER = "it makes the provider connect to another server"
_RUNS_CODE = "it runs code at the provider"
_PRICE = "it changes the price"
_STORED = "it continues what is stored at the provider"
REFUSED_FIELDS: Mapping[str, str] = {
    "mcpservers": _OTHER_SERVER,
    "plugins": _OTHER_SERVER,
    "container": _RUNS_CODE,
    "skills": _RUNS_CODE,
    "inferencegeo": _PRICE,
    "audio": _PRICE,
    "speechconfig": _PRICE,
    "fallback": "another model could answer",
    "fallbacks": "another model could answer",
    "models": "another model could answer",
    "previousresponseid": _STORED,
    "conversation": _STORED,
    "prompt": _STORED,
    "cachedcontent": _STORED,
    "store": "the answer would be stored at the provider",
    "background": "a background response cannot be metered",
    "betas": "beta features are named in the header",
    "anthropicbeta": "beta features are named in the header",
}
"""Fields of a request, by their normalized names. Empty ones and false pass."""
STANDARD_VALUES: Mapping[str, tuple[str, ...]] = {
    "servicetier": ("auto", "default", "standard", "standard_only"),
    "speed": ("standard", "normal"),
    "modalities": ("text",),
    "responsemodalities": ("text",),
}
"""Fields that may have one of these values only: any other has another price."""
CONTENT_FIELDS = ("messages", "input", "contents", "content", "system", "systeminstruction", "instructions")
NESTED_REQUESTS = ("generatecontentrequest", "generationconfig")
CLIENT_TOOLS = re.compile(
    r"custom|function|(?:bash|text_editor|memory|computer|tool_search_tool)_\w*|local_shell|shell|apply_patch|namespace"
    r"|tool_search"
)
SEARCH_TOOLS = re.compile(r"web_search(?:_\w+)?|googleSearch|google_search|web_search_options")
GEMINI_TOOLS = ("functiondeclarations",)
SERVER_TYPES = re.compile(
    r"\w+_20\d{6}|mcp|mcp_toolset|web_fetch|web_search(?:_preview\w*)?|code_interpreter|code_execution|file_search"
    r"|image_generation"
)
"""How a tool is named that is defined among the messages."""
INLINE_SOURCES = ("base64", "text", "content")
REMOTE_KEYS = ("imageurl", "videourl", "audiourl", "documenturl", "fileurl", "fileid", "fileids", "fileuri", "gcsuri")
STORED_ITEMS = ("item_reference",)
FREE_TEXT_KEYS = ("inputschema", "parameters", "schema", "jsonschema", "args", "response")
"""Below these is data of the agent's own tools, with names of any kind."""

Finding = tuple[str, str]
"""The name by which a person can allow it, and why it is refused."""


def check_features(content: Mapping[str, Any], api: str, *, web_search: bool, allowed: Iterable[str] = ()) -> None:
    """Raise RequestRefused, with what to change, for a request that uses such a feature."""
    for name, reason in _find_refused(content, api):
        if (web_search and SEARCH_TOOLS.fullmatch(name)) or is_allowed(name, allowed):
            continue
        raise RequestRefused(
            400,
            "not_allowed",
            f"this request is not forwarded: {name[:60]!r}: {reason}; send it without that, or a person can allow it in"
            f" blueflame.yaml: sandbox.model_features: [{name[:60]}]",
        )


def is_allowed(name: str, allowed: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in allowed)


def _find_refused(content: Mapping[str, Any], api: str) -> Iterator[Finding]:
    for key, value in content.items():
        field = normalize_key(key)
        if field in REFUSED_FIELDS and value:
            yield key, REFUSED_FIELDS[field]
        elif field == "websearchoptions" and value is not None:
            yield "web_search_options", _OTHER_SERVER
        elif field in STANDARD_VALUES:
            yield from _find_unusual(key, value, STANDARD_VALUES[field])
        elif field == "tools":
            yield from _find_server_tools(value, api)
        elif field in CONTENT_FIELDS:
            yield from _find_remote_parts(value, api)
        elif field in NESTED_REQUESTS and isinstance(value, dict):
            yield from _find_refused(value, api)


def _find_unusual(key: str, value: object, usual: tuple[str, ...]) -> Iterator[Finding]:
    for each in value if isinstance(value, list) else [value]:
        if each is not None and str(each).casefold() not in usual:
            yield key, f"{str(each)[:40]!r} has another price"


def _find_server_tools(tools: object, api: str) -> Iterator[Finding]:
    pending = [tools]
    while pending:
        if (found := pending.pop()) is None:
            continue
        for tool in found if isinstance(found, list) else [found]:
            if not isinstance(tool, dict):
                yield "tools", "it is not a list of objects"
                continue
            yield from ((name, _RUNS_CODE) for name in _name_server_tools(tool, api))
            pending.append(tool.get("tools"))  # a namespace


def _name_server_tools(tool: Mapping[str, Any], api: str) -> Iterator[str]:
    kind, place = tool.get("type"), tool.get("environment")
    if api == "gemini":  # names a tool by its key
        yield from (name for name in tool if normalize_key(name) not in GEMINI_TOOLS)
    elif kind is not None and not (isinstance(kind, str) and CLIENT_TOOLS.fullmatch(kind)):
        yield str(kind)
    elif place is not None and not (isinstance(place, dict) and place.get("type") == "local"):
        yield f"{kind}.environment"


def _find_remote_parts(value: object, api: str) -> Iterator[Finding]:
    """Find parts that the provider would fetch; data within the request is fine. No recursion: nesting is deep."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(each for each in part if isinstance(each, dict | list))
        elif isinstance(part, dict):
            yield from _judge_part(part, api)
            own = str(part.get("type")).endswith("tool_use")
            pending.extend(
                each
                for key, each in part.items()
                if isinstance(each, dict | list)
                and normalize_key(key) not in FREE_TEXT_KEYS
                and not (own and key == "input")
            )


def _judge_part(part: Mapping[str, Any], api: str) -> Iterator[Finding]:
    kind, source = part.get("type"), part.get("source")
    if isinstance(source, dict) and source.get("type") not in INLINE_SOURCES:
        yield str(source.get("type")), "the provider would fetch this source"
    if isinstance(kind, str) and SERVER_TYPES.fullmatch(kind) and not CLIENT_TOOLS.fullmatch(kind):
        yield kind, _RUNS_CODE
    if kind in STORED_ITEMS:
        yield str(kind), _STORED
    if isinstance(part.get("tools"), list):
        yield from _find_server_tools(part["tools"], api)
    for key, value in part.items():
        field = normalize_key(key)
        remote = field in REMOTE_KEYS or (field == "filedata" and isinstance(value, dict))
        if remote and not _is_inline(value):
            yield key, "the provider would fetch it"


def _is_inline(value: object) -> bool:
    """Whether an image or file is part of the request: `data:...`, as text or as the `url` of an object."""
    address = value.get("url") if isinstance(value, dict) else value
    return value is None or (isinstance(address, str) and address.startswith("data:"))
