"""Prompts and sessions."""

from __future__ import annotations

import json
from uuid import uuid4

from support.claude_cli import SEALED, STREAM, ClaudeRunner

FLAGS = [*STREAM, *SEALED, "--permission-mode", "dontAsk"]


def test_a_prompt_of_more_than_200_kb_comes_through_standard_input(claude: ClaudeRunner) -> None:
    """As an argument it would be too long: Linux allows 128 KiB."""
    prompt = "begin " + "word " * 50_000 + "end"
    ran = claude.run({"text": "read"}, flags=FLAGS, prompt=prompt)
    assert ran.code == 0
    assert prompt in [block["text"] for block in ran.asked[0].body["messages"][0]["content"]]


def test_a_session_with_an_id_of_ours_is_resumed_with_its_history(claude: ClaudeRunner) -> None:
    session = str(uuid4())
    schema = {"type": "object", "properties": {"plan": {"type": "string"}}, "required": ["plan"]}
    answer = {"when": {"tool": "StructuredOutput"}, "turns": [{"structured": {"plan": "as agreed"}}]}
    with claude.place({"text": "What colour?"}, others=[answer]) as place:
        first = place.run(*FLAGS, "--session-id", session, prompt="Plan a context.")
        second = place.run(
            *FLAGS, "--resume", session, "--json-schema", json.dumps(schema), prompt="Blue. Now the plan."
        )
    assert first.result["session_id"] == second.result["session_id"] == session
    said = json.dumps(second.asked[0].body["messages"])
    assert [word in said for word in ("Plan a context.", "What colour?", "Blue. Now the plan.")] == [True] * 3
    assert second.result["structured_output"] == {"plan": "as agreed"}
    assert second.result["total_cost_usd"] > first.result["total_cost_usd"], "what was spent before is counted again"
    assert list((place.home / ".claude/projects").glob(f"*/{session}.jsonl")), "the transcript has its place"


def test_without_persistence_there_is_no_transcript(claude: ClaudeRunner) -> None:
    ran = claude.run({"text": "hi"}, flags=[*FLAGS, "--no-session-persistence"])
    assert ran.code == 0
    assert list(ran.home.glob(".claude/projects/*/*.jsonl")) == []


def test_a_model_of_our_choice_is_asked(claude: ClaudeRunner) -> None:
    ran = claude.run({"text": "hi"}, flags=[*FLAGS, "--model", "claude-haiku-5-5"])
    assert {asked.body["model"] for asked in ran.asked} == {"claude-haiku-5-5"}
