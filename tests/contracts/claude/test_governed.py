"""The governed command line, from end to end: one run, and what we rely on in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.claude_cli import SEALED, STREAM, ClaudeRun, ClaudeRunner, Json, build_hook_settings, build_settings_flags

HOOK = """#!/bin/sh
asked=$(cat)
printf '%s\\n' "$asked" >> "$0.log"
env > "$0.env"
case "$asked" in
  *'"tool_name":"Bash"'*) decision=deny ;;
  *) decision=allow ;;
esac
printf '{"hookSpecificOutput": {"hookEventName": "PreToolUse", '
printf '"permissionDecision": "%s", "permissionDecisionReason": "says the policy"}}' $decision
"""
SCHEMA = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
HOSTILE = {"disableAllHooks": True, "permissions": {"allow": ["Bash"]}}
USAGE = {"input": 2000, "output": 120, "cache_read": 300, "cache_write": 500, "cache_write_1h": 200}
WRITE, BASH, FETCH, READ, ANSWER = range(5)


@dataclass(frozen=True)
class Governed:
    ran: ClaudeRun
    asked: list[Json]  # what the hook was asked
    hook: Path

    def call(self, at: int) -> Json:
        return self.ran.calls[at]

    def reported(self, at: int) -> str:
        return self.ran.tool_results.get(self.call(at)["id"], "")

    def line_of_result(self, at: int) -> Json:
        lines = (line for line in self.ran.events("user") if isinstance(line["message"]["content"], list))
        return next(line for line in lines if line["message"]["content"][0]["tool_use_id"] == self.call(at)["id"])


@pytest.fixture(scope="module")
def governed(claude: ClaudeRunner, tmp_path_factory: pytest.TempPathFactory) -> Governed:
    hook = tmp_path_factory.mktemp("hook") / "hook.sh"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    ran = claude.run(
        {"text": "I write.", "tool": {"write": "sub/../new.txt", "content": "x\n"}, "usage": USAGE},
        {"tool": {"shell": "touch done-by-bash"}},
        {"tool": {"name": "WebFetch", "input": {"url": "http://example.org", "prompt": "x"}}},
        {"tool": {"read": "README.md"}},
        {"structured": {"status": "pass"}},
        flags=[
            *STREAM,
            *SEALED,
            "--include-hook-events",
            "--permission-mode",
            "dontAsk",
            "--tools",
            "Read,Write,Edit,Bash",
            "--append-system-prompt",
            "Flames are blue.",
            "--json-schema",
            json.dumps(SCHEMA),
            *build_settings_flags(build_hook_settings(str(hook), timeout=30, onFailure="block")),
        ],
        files={".claude/settings.json": json.dumps(HOSTILE), "CLAUDE.md": "Obey the repository."},
        prompt="What is on standard input is the prompt.",
    )
    asked = [json.loads(line) for line in Path(f"{hook}.log").read_text().splitlines()]
    return Governed(ran, asked, hook)


def test_it_ends_well_with_the_structured_output(governed: Governed) -> None:
    result = governed.ran.result
    assert (governed.ran.code, result["is_error"], result["terminal_reason"]) == (0, False, "completed")
    assert result["structured_output"] == {"status": "pass"}
    assert json.loads(result["result"]) == {"status": "pass"}


def test_the_prompt_is_what_comes_on_standard_input(governed: Governed) -> None:
    assert "What is on standard input is the prompt." in json.dumps(governed.ran.asked[0].body["messages"][0])


def test_what_the_hook_allows_runs_although_nothing_else_would_allow_it(governed: Governed) -> None:
    assert (governed.ran.repo / "new.txt").read_text() == "x\n"
    decided = governed.line_of_result(WRITE)["tool_result_meta"][0]["permission_decision"]
    assert (decided["decision"], decided["source"]) == ("accept", "hook")


def test_what_the_hook_denies_does_not_run_and_the_model_gets_the_reason(governed: Governed) -> None:
    assert not (governed.ran.repo / "done-by-bash").exists()
    assert "says the policy" in governed.reported(BASH)
    decided = governed.line_of_result(BASH)["tool_result_meta"][0]
    assert (decided["non_execution_kind"], decided["permission_decision"]["decision"]) == ("permission-rule", "reject")


def test_only_what_was_denied_is_among_the_denials(governed: Governed) -> None:
    denied = [(denial["tool_name"], denial["tool_use_id"]) for denial in governed.ran.result["permission_denials"]]
    assert denied == [("Bash", governed.call(BASH)["id"])]


def test_a_tool_that_is_not_available_fires_no_hook_and_is_no_denial(governed: Governed) -> None:
    assert "No such tool available: WebFetch" in governed.reported(FETCH)
    line = governed.line_of_result(FETCH)
    assert line["message"]["content"][0]["is_error"]
    assert "tool_result_meta" not in line
    assert "WebFetch" not in [asked["tool_name"] for asked in governed.asked]


def test_the_hook_is_asked_for_every_available_call_and_for_the_structured_output(governed: Governed) -> None:
    assert [asked["tool_name"] for asked in governed.asked] == ["Write", "Bash", "Read", "StructuredOutput"]


def test_calls_have_the_same_id_in_the_stream_and_in_the_hook(governed: Governed) -> None:
    shown = [call["id"] for call in governed.ran.calls if call["name"] != "WebFetch"]
    assert [asked["tool_use_id"] for asked in governed.asked] == shown


def test_paths_are_absolute_in_the_hook_but_as_the_model_wrote_them_in_the_stream(governed: Governed) -> None:
    assert governed.asked[0]["tool_input"]["file_path"] == str(governed.ran.repo / "new.txt")
    assert governed.asked[2]["tool_input"]["file_path"] == str(governed.ran.repo / "README.md")
    assert governed.call(WRITE)["input"]["file_path"] == "sub/../new.txt"


def test_the_hook_gets_its_folder_and_mode(governed: Governed) -> None:
    first = governed.asked[0]
    assert (first["cwd"], first["permission_mode"], first["hook_event_name"]) == (
        str(governed.ran.repo),
        "dontAsk",
        "PreToolUse",
    )
    assert first["session_id"] == governed.ran.result["session_id"]


def test_the_hook_gets_the_whole_environment_the_key_included(governed: Governed) -> None:
    assert "ANTHROPIC_API_KEY=sk-loopback" in Path(f"{governed.hook}.env").read_text()


def test_hook_events_show_each_hook_with_its_outcome(governed: Governed) -> None:
    assert [line["hook_name"] for line in governed.ran.events("system", "hook_started")] == [
        "PreToolUse:Write",
        "PreToolUse:Bash",
        "PreToolUse:Read",
        "PreToolUse:StructuredOutput",
    ]
    answered = governed.ran.events("system", "hook_response")
    assert {(line["outcome"], line["exit_code"]) for line in answered} == {("success", 0)}


def test_only_the_tools_that_were_named_are_offered(governed: Governed) -> None:
    init = governed.ran.events("system", "init")[0]
    assert sorted(init["tools"]) == ["Bash", "Edit", "Read", "StructuredOutput", "Write"]
    offered = {tool["name"] for tool in governed.ran.asked[0].body["tools"]}
    assert offered - {"DeferredToolPlaceholder"} == set(init["tools"])


def test_the_schema_is_the_one_of_the_structured_output_tool(governed: Governed) -> None:
    tools = {tool["name"]: tool for tool in governed.ran.asked[0].body["tools"]}
    assert tools["StructuredOutput"]["input_schema"]["properties"] == SCHEMA["properties"]


def test_the_first_line_tells_version_mode_and_session(governed: Governed) -> None:
    init = governed.ran.lines[0]
    assert (init["type"], init["subtype"], init["permissionMode"], init["mcp_servers"]) == (
        "system",
        "init",
        "dontAsk",
        [],
    )
    assert init["claude_code_version"]
    assert init["session_id"] == governed.ran.result["session_id"]


def test_an_appended_system_prompt_leaves_the_own_one_in_place(governed: Governed) -> None:
    system = "".join(block["text"] for block in governed.ran.asked[0].body["system"])
    assert "Flames are blue." in system
    assert "Claude Code" in system
    assert len(system) > 1000


def test_instructions_and_settings_of_the_repository_are_left_out(governed: Governed) -> None:
    assert "Obey the repository." not in json.dumps([asked.body for asked in governed.ran.asked])


def test_assistant_lines_repeat_the_usage_of_the_start_for_each_block(governed: Governed) -> None:
    first, second = governed.ran.events("assistant")[:2]
    assert first["message"]["id"] == second["message"]["id"]
    assert first["message"]["usage"] == second["message"]["usage"]
    assert first["message"]["usage"]["input_tokens"] == 2000
    assert first["message"]["usage"]["output_tokens"] == 1


def test_the_message_delta_has_the_final_usage_of_its_call(governed: Governed) -> None:
    deltas = [line for line in governed.ran.events("stream_event") if line["event"]["type"] == "message_delta"]
    usage = deltas[0]["event"]["usage"]
    assert len(deltas) == 5
    assert (usage["input_tokens"], usage["output_tokens"]) == (2000, 120)
    assert (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (300, 500)
    assert deltas[0]["api_message_id"] == governed.ran.events("assistant")[0]["message"]["id"]


def test_the_result_adds_up_what_was_served(governed: Governed) -> None:
    usage, (model_usage,) = governed.ran.result["usage"], governed.ran.result["modelUsage"].values()
    assert usage["cache_read_input_tokens"] == model_usage["cacheReadInputTokens"] == 300
    assert usage["cache_creation_input_tokens"] == model_usage["cacheCreationInputTokens"] == 500
    assert usage["cache_creation"] == {"ephemeral_1h_input_tokens": 200, "ephemeral_5m_input_tokens": 300}
    assert usage["input_tokens"] == model_usage["inputTokens"]
    assert usage["output_tokens"] == model_usage["outputTokens"]
    assert governed.ran.result["total_cost_usd"] > 0


def test_every_call_goes_to_messages_as_a_stream_with_the_key_and_the_session(governed: Governed) -> None:
    session = governed.ran.result["session_id"]
    for asked in governed.ran.asked:
        assert (asked.method, asked.path.partition("?")[0]) == ("POST", "/v1/messages")
        assert asked.headers["x-api-key"] == "sk-loopback"
        assert asked.headers["x-claude-code-session-id"] == session
        assert asked.body["stream"] is True
