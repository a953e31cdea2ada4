"""Subagents: several results, hooks, and usage that only the requests show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.claude_cli import SEALED, STREAM, ClaudeRun, ClaudeRunner, Json, build_hook_settings, build_settings_flags

FLAGS = [*STREAM, *SEALED, "--permission-mode", "acceptEdits"]
DELEGATE: Json = {
    "tool": {
        "name": "Agent",
        "input": {"description": "do a part", "prompt": "SUBTASK please", "subagent_type": "general-purpose"},
    },
    "usage": {"input": 1000, "output": 10},
}
PART: Json = {
    "when": {"user": "SUBTASK please", "tool": "Bash"},
    "turns": [
        {"tool": {"shell": "touch made-by-subagent"}, "usage": {"input": 300, "output": 30}},
        {"text": "the part is done", "usage": {"input": 400, "output": 40}},
    ],
}
HOOK = '#!/bin/sh\ncat >> "$0.log"\necho >> "$0.log"\n'


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hook") / "hook.sh"
    path.write_text(HOOK)
    path.chmod(0o755)
    return path


def run(claude: ClaudeRunner, hook: Path, *, background: bool) -> tuple[ClaudeRun, int]:
    env = None if background else {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
    last = {"text": "all is done", "usage": {"input": 2000, "output": 20}}
    with claude.place(DELEGATE, last, others=[PART], env=env) as place:
        ran = place.run(*FLAGS, *build_settings_flags(build_hook_settings(str(hook))))
        return ran, place.model.totals.input


@pytest.fixture(scope="module")
def synchronous(claude: ClaudeRunner, hook: Path) -> tuple[ClaudeRun, int]:
    return run(claude, hook, background=False)


def test_subagents_in_the_background_bring_more_than_one_result(claude: ClaudeRunner, hook: Path) -> None:
    ran, _ = run(claude, hook, background=True)
    assert [result["result_index"] for result in ran.results] == [0, 1]
    assert ran.code == 0


def test_without_background_tasks_there_is_one_result(synchronous: tuple[ClaudeRun, int]) -> None:
    ran, _ = synchronous
    assert len(ran.results) == 1
    assert ran.result["result"] == "all is done"
    assert (ran.repo / "made-by-subagent").exists()


def test_hooks_fire_in_a_subagent_and_name_it(synchronous: tuple[ClaudeRun, int], hook: Path) -> None:
    asked = [json.loads(line) for line in Path(f"{hook}.log").read_text().splitlines() if line]
    inside = [each for each in asked if each["tool_name"] == "Bash"]
    outside = [each for each in asked if each["tool_name"] == "Agent"]
    assert {each["agent_type"] for each in inside} == {"general-purpose"}
    assert all(each["agent_id"] for each in inside)
    assert all("agent_id" not in each for each in outside)


def test_calls_of_a_subagent_are_shown_with_the_call_that_began_it(synchronous: tuple[ClaudeRun, int]) -> None:
    ran, _ = synchronous
    parents = {
        line["parent_tool_use_id"]
        for line in ran.events("assistant")
        if line["message"]["content"][0].get("name") == "Bash"
    }
    assert parents == {ran.calls[0]["id"]}


def test_the_stream_does_not_show_what_a_subagent_used(synchronous: tuple[ClaudeRun, int]) -> None:
    """Nor does the result's `usage`: only its `modelUsage`, at the end, and the wire, at once."""
    ran, served = synchronous
    deltas = [line["event"]["usage"] for line in ran.events("stream_event") if line["event"]["type"] == "message_delta"]
    (counted,) = ran.result["modelUsage"].values()
    assert sum(usage["input_tokens"] for usage in deltas) == 3000
    assert ran.result["usage"]["input_tokens"] == 3000
    assert counted["inputTokens"] == served == 3700
