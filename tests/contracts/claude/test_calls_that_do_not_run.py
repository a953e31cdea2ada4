"""Calls that it refuses by itself, before any hook: how they differ from calls that ran in the stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.claude_cli import SEALED, STREAM, ClaudeRun, ClaudeRunner, Json, build_hook_settings, build_settings_flags

ALLOW = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'
HOOK = f'#!/bin/sh\ncat >> "$0.log"\necho >> "$0.log"\necho \'{ALLOW}\'\n'
REFUSED: dict[str, Json] = {
    "an unknown tool": {"name": "Nothing", "input": {}},
    "a tool that is not offered": {"name": "Grep", "input": {"pattern": "x"}},
    "a missing parameter": {"name": "Write", "input": {"file_path": "x.txt"}},
    "a parameter of the wrong type": {"name": "Bash", "input": {"command": "ls", "timeout": "long"}},
    "a bare sleep": {"shell": "sleep 1000"},
    "an edit that finds nothing": {"name": "Edit", "input": {"file_path": "a", "old_string": "z", "new_string": "y"}},
    "an edit that changes nothing": {"name": "Edit", "input": {"file_path": "a", "old_string": "b", "new_string": "b"}},
}
JUDGED: dict[str, Json] = {
    "a read of a missing file": {"read": "missing"},
    "a command that fails": {"shell": "false"},
    "a write": {"write": "b", "content": "x"},
    "a command in the background": {"name": "Bash", "input": {"command": "true", "run_in_background": True}},
}


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hook") / "hook.sh"
    path.write_text(HOOK)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def ran(claude: ClaudeRunner, hook: Path) -> ClaudeRun:
    return claude.run(
        *[{"tool": call} for call in (REFUSED | JUDGED).values()],
        {"text": "done"},
        flags=[
            *STREAM,
            *SEALED,
            "--permission-mode",
            "dontAsk",
            "--tools",
            "Read,Write,Edit,Bash",
            *build_settings_flags(build_hook_settings(str(hook), onFailure="block")),
        ],
        files={"a": "text"},
    )


def ids(ran: ClaudeRun) -> dict[str, str]:
    return dict(zip(REFUSED | JUDGED, [call["id"] for call in ran.calls], strict=True))


def asked(hook: Path) -> set[str]:
    lines = Path(f"{hook}.log").read_text().splitlines()
    return {json.loads(line)["tool_use_id"] for line in lines if line}


def decisions(ran: ClaudeRun) -> dict[str, str]:
    metas = [meta for line in ran.events("user") for meta in line.get("tool_result_meta", ())]
    return {meta["id"]: meta["permission_decision"]["source"] for meta in metas}


def failed(ran: ClaudeRun) -> set[str]:
    blocks = [block for line in ran.events("user") for block in line["message"]["content"]]
    return {block["tool_use_id"] for block in blocks if block.get("is_error")}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_refuses_by_itself_asks_no_hook_and_has_no_decision(ran: ClaudeRun, hook: Path, what: str) -> None:
    call = ids(ran)[what]
    assert call not in asked(hook)
    assert call not in decisions(ran)
    assert call in failed(ran)
    assert ran.tool_results[call].startswith("<tool_use_error>")


@pytest.mark.parametrize("what", JUDGED)
def test_what_gets_as_far_as_the_hook_has_its_decision(ran: ClaudeRun, hook: Path, what: str) -> None:
    call = ids(ran)[what]
    assert call in asked(hook)
    assert decisions(ran)[call] == "hook"


def test_what_runs_without_a_hook_says_so(claude: ClaudeRunner) -> None:
    ran = claude.run(
        {"tool": {"write": "b", "content": "x"}},
        {"text": "done"},
        flags=[*STREAM, *SEALED, "--permission-mode", "acceptEdits"],
    )
    assert list(decisions(ran).values()) == ["config"]
