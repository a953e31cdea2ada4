"""A hook that fails: when the call runs all the same, and when it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.agents.claude.stream import HOOK_FAILED
from support.claude_cli import SEALED, STREAM, ClaudeRun, ClaudeRunner, Json, build_hook_settings, build_settings_flags

# a hook that fails in the way that the name of the file says
HOOK = """#!/bin/sh
asked=$(cat)
case "$asked" in
  *exit-1.txt*) exit 1 ;;
  *exit-2.txt*) echo "blocked by two" >&2; exit 2 ;;
  *exit-3.txt*) exit 3 ;;
  *killed.txt*) kill -9 $$ ;;
  *timeout.txt*) sleep 30 ;;
  *plain-text.txt*) echo "no, do not write that" ;;
  *bad-json.txt*) echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"DENY!"}}' ;;
  *ask.txt*) decision=ask ;;
  *deny.txt*) decision=deny ;;
  *stop.txt*) echo '{"continue":false}' ;;
  *) decision=allow ;;
esac
[ -z "$decision" ] ||
  echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"'$decision'"}}'
"""
BROKEN = ("exit-1", "exit-3", "killed", "timeout", "bad-json")
BLOCKED = ("exit-2", "deny", "ask")


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hook") / "hook.sh"
    path.write_text(HOOK)
    path.chmod(0o755)
    return path


def writes(*names: str) -> Json:
    return {"tools": [{"write": f"{name}.txt", "content": "x"} for name in names]}


def run(
    claude: ClaudeRunner, given: Json, *names: str, mode: str = "acceptEdits", flags: tuple[str, ...] = SEALED
) -> ClaudeRun:
    return claude.run(
        writes(*names),
        {"text": "done"},
        flags=[*STREAM, *flags, "--permission-mode", mode, *build_settings_flags(given)],
        files={"other.txt": "before"},
    )


def written(ran: ClaudeRun) -> set[str]:
    return {path.stem for path in ran.repo.glob("*.txt")} - {"other"}


def both(hook: Path, **entry: object) -> Json:
    """Use the failing hook for tools that write, and a missing hook for the shell."""
    content = build_hook_settings(str(hook), matcher="Write", timeout=1, **entry)
    missing = build_hook_settings(str(hook.parent / "missing.sh"), matcher="Bash", **entry)
    content["hooks"]["PreToolUse"] += missing["hooks"]["PreToolUse"]
    return content


@pytest.fixture(scope="module")
def unguarded(claude: ClaudeRunner, hook: Path) -> ClaudeRun:
    calls = writes(*BROKEN, *BLOCKED, "plain-text", "allow")
    calls["tools"] += [{"shell": "touch missing-hook.txt"}]
    flags = [*STREAM, *SEALED, "--permission-mode", "acceptEdits", *build_settings_flags(both(hook))]
    return claude.run(calls, {"text": "done"}, flags=flags)


@pytest.fixture(scope="module")
def guarded(claude: ClaudeRunner, hook: Path) -> ClaudeRun:
    calls = writes(*BROKEN, *BLOCKED, "plain-text", "allow")
    calls["tools"] += [{"shell": "touch missing-hook.txt"}]
    flags = [*STREAM, *SEALED, "--permission-mode", "acceptEdits", *build_settings_flags(both(hook, onFailure="block"))]
    return claude.run(calls, {"text": "done"}, flags=flags)


@pytest.mark.parametrize("failure", [*BROKEN, "missing-hook"])
def test_a_hook_that_fails_lets_the_call_through_by_default(unguarded: ClaudeRun, failure: str) -> None:
    assert failure in written(unguarded)


@pytest.mark.parametrize("failure", [*BROKEN, "missing-hook"])
def test_a_hook_that_fails_blocks_the_call_with_on_failure_block(guarded: ClaudeRun, failure: str) -> None:
    assert failure not in written(guarded)


@pytest.mark.parametrize("answer", BLOCKED)
def test_exit_2_deny_and_ask_block_in_any_case(unguarded: ClaudeRun, guarded: ClaudeRun, answer: str) -> None:
    assert answer not in written(unguarded) | written(guarded)


def test_plain_text_on_standard_output_is_no_decision_even_with_on_failure_block(
    unguarded: ClaudeRun, guarded: ClaudeRun
) -> None:
    assert "plain-text" in written(unguarded) & written(guarded)


def test_allow_allows(unguarded: ClaudeRun, guarded: ClaudeRun) -> None:
    assert "allow" in written(unguarded) & written(guarded)


def test_the_model_learns_that_a_failed_hook_blocked_it(guarded: ClaudeRun) -> None:
    words = " ".join(guarded.tool_results.values())
    assert 'blocking because onFailure is "block"' in words
    assert any(HOOK_FAILED.match(each) for each in guarded.tool_results.values())
    assert "timed out" in words
    assert "blocked by two" in words


def test_an_entry_that_is_not_valid_is_dropped_silently_even_with_on_failure_block(
    claude: ClaudeRunner, hook: Path
) -> None:
    ran = run(claude, build_hook_settings(str(hook), type="nonsense", onFailure="block"), "deny")
    assert written(ran) == {"deny"}
    assert (ran.code, ran.err) == (0, "")


def test_under_dont_ask_a_hook_without_a_decision_means_no(claude: ClaudeRunner, hook: Path) -> None:
    """Without `allow`, no call that has effects runs, whatever happens to the hook."""
    ran = run(claude, both(hook), *BROKEN, "plain-text", "allow", mode="dontAsk")
    assert written(ran) == {"allow"}
    assert {denial["tool_name"] for denial in ran.result["permission_denials"]} == {"Write"}


def test_under_dont_ask_reads_and_read_only_commands_need_no_hook(claude: ClaudeRunner) -> None:
    ran = claude.run(
        {"tools": [{"read": "other.txt"}, {"shell": "cat other.txt"}, {"shell": "touch made"}]},
        {"text": "done"},
        flags=[*STREAM, *SEALED, "--permission-mode", "dontAsk"],
        files={"other.txt": "before"},
    )
    read, shown, touched = ran.tool_results.values()
    assert "before" in read
    assert "before" in shown
    assert "denied" in touched
    assert not (ran.repo / "made").exists()


def test_a_hook_that_allows_can_tell_the_model_something(claude: ClaudeRunner, tmp_path: Path) -> None:
    """So an agent can be warned about its budget while it can still commit."""
    hook, answer = tmp_path / "hook.sh", {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    words = {"additionalContext": "Commit now.", "permissionDecisionReason": "is not shown"}
    hook.write_text(f"#!/bin/sh\necho '{json.dumps({'hookSpecificOutput': answer | words})}'\n")
    hook.chmod(0o755)
    ran = run(claude, build_hook_settings(str(hook)), "allowed", mode="dontAsk")
    assert written(ran) == {"allowed"}
    said = json.dumps(ran.asked[1].body["messages"])
    assert "PreToolUse:Write hook additional context: Commit now." in said
    assert "is not shown" not in said


def test_continue_false_does_not_keep_the_call_from_running(claude: ClaudeRunner, hook: Path) -> None:
    ran = run(claude, build_hook_settings(str(hook), onFailure="block"), "stop")
    assert written(ran) == {"stop"}
    assert (ran.code, ran.result["is_error"], ran.result["terminal_reason"]) == (0, False, "hook_stopped")


@pytest.mark.parametrize("flag", ["--bare", "--safe-mode"])
def test_the_modes_that_skip_hooks_are_not_for_us(claude: ClaudeRunner, hook: Path, flag: str) -> None:
    """So we never use them: a hook that would refuse is not even asked."""
    given = build_hook_settings(str(hook), onFailure="block")
    ran = claude.run(
        {"tool": {"shell": "echo deny.txt; touch done.txt"}},
        {"text": "done"},
        flags=[*STREAM, flag, "--permission-mode", "acceptEdits", *build_settings_flags(given)],
    )
    assert written(ran) == {"done"}


@pytest.mark.parametrize("given", ["{not json", "/missing/settings.json"])
def test_settings_that_cannot_be_read_stop_it_before_it_starts(claude: ClaudeRunner, given: str) -> None:
    ran = claude.run({"text": "done"}, flags=[*STREAM, *SEALED, "--settings", given])
    assert (ran.code, ran.out, ran.asked) == (1, "", ())
    assert ran.err


def test_an_unknown_flag_stops_it_before_it_starts(claude: ClaudeRunner) -> None:
    ran = claude.run({"text": "done"}, flags=[*STREAM, "--flag-of-the-future", json.dumps({})])
    assert (ran.code, ran.out, ran.asked) == (1, "", ())
    assert "unknown option" in ran.err
