"""Tool calls of the Agent Client Protocol in the policy's words, as real agents tell them."""

from __future__ import annotations

from typing import Any

import pytest

from blueflame.policy.dialects import ToolUse
from blueflame.policy.dialects.acp import AcpCall, is_missing_tool, translate_acp_call, update_call

CWD = "/repo"


def heard(*messages: dict[str, Any]) -> AcpCall:
    known = AcpCall()
    for message in messages:
        known = update_call(known, message)
    return known


def edits(*paths: str) -> tuple[ToolUse, ...]:
    return tuple(ToolUse("Edit", {"file_path": path}) for path in paths)


PATCH = "*** Begin Patch\n*** Add File: p.txt\n+x\n*** End Patch"
FILES = [{"filePath": "/repo/p.txt", "type": "add"}, {"filePath": "/repo/a.txt", "movePath": "/repo/b.txt"}]

CALLS: dict[str, tuple[AcpCall, tuple[ToolUse, ...] | None]] = {
    "opencode runs a command": (
        heard(
            {"title": "bash", "kind": "execute", "raw_input": {"cwd": "/repo"}, "locations": [{"path": "/repo"}]},
            {"kind": "execute", "raw_input": {"command": "make", "description": "x", "cwd": "/repo"}},
            {"kind": "execute", "title": "make", "raw_input": {"command": "make"}},
        ),
        (ToolUse("Bash", {"command": "make"}, "/repo"),),
    ),
    "opencode runs a command elsewhere": (
        heard(
            {"title": "bash", "kind": "execute", "raw_input": {"cwd": "/repo"}},
            {"kind": "execute", "raw_input": {"command": "make", "workdir": "/repo/sub"}},
        ),
        (ToolUse("Bash", {"command": "make"}, "/repo/sub"),),
    ),
    "opencode patches": (
        heard(
            {"title": "apply_patch", "kind": "edit", "raw_input": {"patchText": PATCH}},
            {"kind": "edit", "raw_input": {"filepath": "p.txt, a.txt", "files": FILES}},
        ),
        edits("/repo/p.txt", "/repo/a.txt", "/repo/b.txt"),
    ),
    "opencode patches unreadably": (
        heard({"title": "apply_patch", "kind": "edit", "raw_input": {"patchText": "x", "filePath": "/repo/a"}}),
        None,
    ),
    "opencode reads outside, and asks twice": (
        heard(
            {"title": "read", "kind": "read", "raw_input": {"filePath": "/etc/passwd"}},
            {"title": "/etc", "kind": "other", "raw_input": {"filepath": "/etc/passwd", "parentDir": "/etc"}},
        ),
        (ToolUse("Read", {"file_path": "/etc/passwd"}),),
    ),
    "opencode reads it knows not what": (heard({"title": "read", "kind": "read", "raw_input": {}}), None),
    "opencode searches": (
        heard({"title": "glob", "kind": "search", "raw_input": {"pattern": "*.py"}}),
        (ToolUse("Glob", {"pattern": "*.py"}),),
    ),
    "opencode starts an agent": (
        heard({"title": "task", "kind": "think", "raw_input": {"prompt": "x"}}),
        (ToolUse("Task", {}),),
    ),
    "claude writes": (
        heard(
            {"title": "Write", "kind": "edit", "field_meta": {"claudeCode": {"toolName": "Write"}}},
            {"kind": "edit", "title": "Write a", "raw_input": {"file_path": "/repo/a", "content": "x"}},
        ),
        edits("/repo/a"),
    ),
    "gemini runs a command": (
        heard({"kind": "execute", "title": "make all", "content": [{"content": {"text": "(build)", "type": "text"}}]}),
        (ToolUse("Bash", {"command": "make all"}),),
    ),
    "gemini runs a command elsewhere": (
        heard({"kind": "execute", "title": "make", "content": [{"content": {"text": "[in sub] (x)"}}]}),
        None,
    ),
    "gemini cuts its command short": (heard({"kind": "execute", "title": "echo a b c..."}), None),
    "gemini writes": (
        heard({"kind": "edit", "title": "Writing to g", "content": [{"type": "diff", "path": "/repo/g"}]}),
        edits("/repo/g"),
    ),
    "a file is moved": (
        heard({"kind": "move", "locations": [{"path": "/repo/a"}, {"path": "b"}]}),
        edits("/repo/a", "/repo/b"),
    ),
    "an address is fetched": (
        heard({"kind": "fetch", "raw_input": {"url": "https://example.org", "format": "text"}}),
        (ToolUse("WebFetch", {"url": "https://example.org"}),),
    ),
    "something is fetched": (heard({"kind": "fetch", "title": "the news"}), None),
    "a command in no form that is known": (heard({"kind": "execute", "raw_input": {"command": ["ls"]}}), None),
    "a command without words": (heard({"kind": "execute", "raw_input": {"script": "ls"}}), None),
    "an unknown tool": (heard({"kind": "other", "title": "launch"}), (ToolUse("launch", {}),)),
    "nothing at all": (heard({}), (ToolUse("a nameless tool", {}),)),
}


@pytest.mark.parametrize(("known", "expected"), CALLS.values(), ids=CALLS.keys())
def test_a_call_is_translated_or_refused(known: AcpCall, expected: tuple[ToolUse, ...] | None) -> None:
    assert translate_acp_call(known, CWD) == expected


def test_a_tool_that_the_agent_does_not_have_is_not_a_call() -> None:
    known = heard(
        {"title": "list", "kind": "other"},
        {"title": "invalid", "kind": "other", "raw_input": {"tool": "list", "error": "unavailable"}},
    )

    assert is_missing_tool(known)
    assert not is_missing_tool(heard({"title": "invalid", "kind": "execute", "raw_input": {"command": "x"}}))
