"""Refuse what lets a model's provider reach other hosts, or changes the price, on behalf of an agent.

The sandbox has no network, but a provider has: it fetches addresses, runs code and calls other servers if a request
says so. Such a request is refused before it is sent. `web_search` is allowed where the agent may search the web.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.billing.sse import parse_json
from blueflame.gateway.request import RequestRefused

# A key can be written with escapes, so a backslash-u is a reason to parse, too. Without a match nothing is parsed.
_SUSPICIOUS = re.compile(
    rb'\\u00|"(?:mcp_servers|container|service_tier|speed|inference_geo|background|source|image_url|file_url|file_id|file'
    rb"|web_|code_|file_|tool_search|mcp|image_generation|computer|fileData|file_data|googleSearch|google_search|urlContext"
    rb'|url_context|codeExecution|code_execution)[a-z_0-9A-Z]*"'
)
REFUSED_KEYS: Mapping[str, str] = {
    "mcp_servers": "it makes the provider connect to another server",
    "container": "it runs code at the provider",
    "inference_geo": "it changes the price",
}
STANDARD_TIERS = ("auto", "default", "standard", "standard_only")
CLIENT_TOOLS = re.compile(
    r"custom|function|(?:bash|text_editor|memory|computer|tool_search_tool)_\w*|local_shell|shell|apply_patch|namespace|tool_search"
)
SEARCH_TOOLS = re.compile(r"web_search(?:_\w+)?|googleSearch|google_search")
GEMINI_TOOLS = ("functionDeclarations", "function_declarations")
REMOTE_SOURCES = ("url", "file")
REMOTE_KEYS = ("image_url", "file_url", "file_id", "fileData", "file_data", "fileUri", "file_uri")


def check_features(body: bytes, *, web_search: bool) -> None:
    """Raise RequestRefused, with what to change, for a request that uses such a feature."""
    if _SUSPICIOUS.search(body) is None:
        return
    content = parse_json(body)
    if not isinstance(content, dict):
        return  # the provider refuses it
    reason = next(_find_refused(content, web_search=web_search), "")
    if reason:
        raise RequestRefused(400, "not_allowed", f"this request is not forwarded: {reason}; send it without that")


def _find_refused(content: Mapping[str, Any], *, web_search: bool) -> Iterator[str]:
    for key, reason in REFUSED_KEYS.items():
        if content.get(key):
            yield f"{key}: {reason}"
    if (tier := content.get("service_tier")) not in (None, *STANDARD_TIERS):
        yield f"service_tier {str(tier)[:40]!r}: it changes the price"
    if (speed := content.get("speed")) not in (None, "standard"):
        yield f"speed {str(speed)[:40]!r}: it changes the price"
    tools = content.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        for name in _list_server_tools(tool):
            if not (web_search and SEARCH_TOOLS.fullmatch(name)):
                yield f"the tool {name[:60]!r}: it runs at the provider, not in the sandbox"
    for key in ("messages", "input", "contents", "system", "systemInstruction", "instructions"):
        yield from _find_remote_parts(content.get(key))


def _list_server_tools(tool: object) -> Iterator[str]:
    if not isinstance(tool, dict):
        return
    kind = tool.get("type")
    if isinstance(kind, str):
        if not CLIENT_TOOLS.fullmatch(kind):
            yield kind
    elif "name" not in tool:  # Gemini names a tool by its key
        yield from (str(name) for name in tool if name not in GEMINI_TOOLS)


def _find_remote_parts(value: object) -> Iterator[str]:
    """Find parts that the provider would fetch; data within the request is fine. No recursion: nesting has no limit."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, dict):
            source = part.get("source")
            if isinstance(source, dict) and source.get("type") in REMOTE_SOURCES:
                yield f"a source of type {source['type']}: the provider would fetch it"
            for key in REMOTE_KEYS:
                if key in part and not _is_inline(part[key]):
                    yield f"{key}: the provider would fetch it"
            pending.extend(each for each in part.values() if isinstance(each, dict | list))


def _is_inline(value: object) -> bool:
    """Whether an image or file is part of the request: `data:...`, as text or as the `url` of an object."""
    address = value.get("url") if isinstance(value, dict) else value
    if isinstance(value, dict) and value.get("file_data"):
        address = value["file_data"]
    return value is None or (isinstance(address, str) and address.startswith("data:"))
