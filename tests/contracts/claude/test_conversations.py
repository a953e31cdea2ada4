"""Prompts and sessions."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from blueflame.agents.claude.conversation import build_resumed_launch
from blueflame.agents.claude.resume_driver import is_refusal
from blueflame.agents.runtime import AgentBrief, AgentLaunch
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


def test_a_conversation_that_we_wrote_is_resumed_at_no_cost_and_without_an_empty_message(claude: ClaudeRunner) -> None:
    given = ({"role": "user", "content": "Plan a context."}, {"role": "assistant", "content": "What colour?"})
    with claude.place({"text": "one"}, {"text": "two"}) as place:
        brief = AgentBrief(
            attempt="ses-1.task-001.worker.2",
            agent_id="worker-0a1b2c3d",
            role="worker",
            subject="task-001",
            n=2,
            session="ses-1",
            worktree=str(place.repo),
            prompt="Blue.",
            conversation=given,
        )
        launch = build_resumed_launch(AgentLaunch(argv=("claude",), env={}, stdin=""), brief, place.root)
        ((name, transcript),) = launch.home.items()
        (place.home / name).parent.mkdir(parents=True)
        (place.home / name).write_text(transcript)
        flags = (*FLAGS, "--resume")
        resumed = place.run(*flags, Path(name).stem, prompt="Blue.")
        refused = place.run(*flags, str(uuid4()), prompt="Blue.")
    messages = resumed.asked[0].body["messages"]
    said = json.dumps(messages)
    assert [word in said for word in ("Plan a context.", "What colour?", "Blue.")] == [True] * 3
    assert all(message["content"] for message in messages)
    assert resumed.result["result"] == "two"
    assert resumed.result["total_cost_usd"] < 0.1, "only this call is counted"
    assert (place.home / name).read_text().startswith(transcript), "what follows is added to it"
    assert is_refusal(refused.out.encode())
    assert refused.asked == ()
