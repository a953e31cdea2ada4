"""What Codex and the Gemini CLI print, recorded from the real programs, and what our ACP client prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from blueflame.agents.acp import AcpRuntime
from blueflame.agents.codex import CodexRuntime
from blueflame.agents.gemini import GeminiRuntime
from blueflame.agents.runtime import AgentOutput, Runtime, read_spool
from blueflame.checks.audit_gaps import find_defied_refusals, find_unaudited_calls
from blueflame.model.audit import AuditLine, ObservedCall, compute_input_digest

STREAMS = Path(__file__).parent / "peer_streams"
HERE = Path(__file__).parent


def gathered(runtime: Runtime, name: str) -> AgentOutput:
    return read_spool(runtime, STREAMS / f"{name}.jsonl")


def logged(*asked: tuple[str, Mapping[str, object], bool]) -> tuple[AuditLine, ...]:
    """The watcher's lines for these tools, inputs and decisions."""
    return tuple(
        AuditLine(
            timestamp="",
            agent_id="",
            attempt="",
            tool=tool,
            target="",
            decision="allow" if allowed else "block",
            rule="",
            details="",
            call=f"call_{n}",
            digest=compute_input_digest(given),
            prev="",
        )
        for n, (tool, given, allowed) in enumerate(asked)
    )


CODEX = CodexRuntime(root=HERE)
GEMINI = GeminiRuntime(root=HERE)
RAN = ("Bash", {"command": "echo hello; sleep 0.3"}, True)
EDITED = ("Edit", {"file_path": "/repo/a.txt"}, True)
ADDED = ("Write", {"file_path": "/repo/b.txt"}, True)
QUOTED = ("Bash", {"command": "echo 'it'\"'\"'s'; sleep 0.3"}, True)


def test_calls_and_last_text_of_codex_are_read() -> None:
    found = gathered(CODEX, "codex")

    assert [(act.tool, act.target) for act in found.calls] == [
        ("Bash", RAN[1]["command"]),
        ("Edit", "/repo/a.txt"),
        ("Write", "/repo/b.txt"),
        ("Bash", QUOTED[1]["command"]),
    ]
    assert found.output == {"status": "pass"}
    assert found.result is not None and found.result.failure == ""
    assert found.problems == ()


def test_codex_is_compared_with_the_log_by_what_it_did() -> None:
    acts = gathered(CODEX, "codex").calls

    assert find_unaudited_calls(acts, logged(RAN, ADDED, EDITED, QUOTED)) == ()
    assert find_unaudited_calls(acts, logged(RAN, ADDED, EDITED)) == (
        f"Bash {QUOTED[1]['command']!r} was never asked for",
    )
    assert find_unaudited_calls((*acts, acts[0]), logged(RAN, ADDED, EDITED, QUOTED))
    refused = ("Write", {"file_path": "/repo/b.txt"}, False)
    assert [line.tool for line in find_defied_refusals(acts, logged(RAN, refused, EDITED, QUOTED))] == ["Write"]


def test_codex_does_not_show_what_was_refused() -> None:
    found = gathered(CODEX, "codex_refused")

    assert (found.calls, found.text) == ((), '{"status": "pass"}')


def test_commands_of_codex_are_read_as_they_were_asked_for_however_they_are_quoted() -> None:
    asked = [
        "X='a b'; echo \"$X\" `id -u` 'it' \"it's\" \\\\ \\$X ! a!b $(echo ^x^) # {a,b} ~ *\nsleep 0.2",
        "echo ^x 'q' ж \"quo'te\" ; sleep 0.2",
        "sleep 0.3",
        "  sleep 0.3  ",
        "echo \"it's\" '$HOME' ^a\t`x`; sleep 0.3",
    ]

    assert [act.target for act in gathered(CODEX, "codex_quoting").calls] == asked


def test_a_program_named_like_a_shell_is_not_taken_for_one() -> None:
    line = {"type": "item.started", "item": {"id": "i", "type": "command_execution", "command": "/repo/bash -c true"}}

    (act,) = CODEX.parse_line(json.dumps(line))

    assert isinstance(act, ObservedCall)
    assert find_unaudited_calls((act,), logged(("Bash", {"command": "true"}, True)))


def test_an_unknown_item_of_codex_is_a_gap() -> None:
    line = {"type": "item.completed", "item": {"id": "i", "type": "mcp_tool_call", "server": "x", "tool": "y"}}

    (act,) = CODEX.parse_line(json.dumps(line))

    assert isinstance(act, ObservedCall)
    assert find_unaudited_calls((act,), logged(RAN)) == ("mcp_tool_call was never asked for",)


def test_a_failed_run_of_codex_is_a_failure() -> None:
    found = gathered(CODEX, "codex_failed")

    assert found.result is not None
    assert (found.result.failure, "no more" in found.result.detail) == ("error", True)


def test_every_call_of_gemini_is_read_with_those_that_did_not_run() -> None:
    found = gathered(GEMINI, "gemini")

    assert [(act.tool, act.target, act.denied) for act in found.calls] == [
        ("Bash", "echo one", False),
        ("Write", "g.txt", False),
    ]
    ran = ("Bash", {"command": "echo one", "description": "say one"}, True)
    wrote = ("Write", {"file_path": "g.txt", "content": "hello\n"}, True)
    assert find_unaudited_calls(found.calls, logged(ran, wrote)) == ()
    assert len(find_unaudited_calls(found.calls, logged(ran))) == 1
    assert found.output == {"status": "pass"}
    assert found.result is not None and found.result.failure == ""


def test_refused_calls_of_gemini_are_read() -> None:
    found = gathered(GEMINI, "gemini_refused")

    assert [(act.tool, act.denied) for act in found.calls] == [("Bash", True), ("Write", True)]


def test_pieces_of_one_message_are_one_message(tmp_path: Path) -> None:
    pieces = ['{"sta', 'tus": ', '"pass"}']
    lines = [{"type": "message", "role": "assistant", "content": "Before.", "delta": True}]
    lines += [{"type": "tool_use", "tool_name": "glob", "tool_id": "1", "parameters": {"pattern": "*"}}]
    lines += [{"type": "message", "role": "assistant", "content": piece, "delta": True} for piece in pieces]
    lines += [{"type": "result", "status": "success"}]
    spool = tmp_path / "stdout.log"
    spool.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert read_spool(GEMINI, spool).output == {"status": "pass"}


def test_a_failed_run_of_gemini_is_a_failure() -> None:
    found = gathered(GEMINI, "gemini_failed")

    assert found.result is not None
    assert (found.result.failure, "no more" in found.result.detail) == ("error", True)


def test_the_player_of_acp_agents_is_read_line_by_line(tmp_path: Path) -> None:
    said = [
        {"type": "say", "text": "Here it comes."},
        {"type": "action", "tool": "Bash", "target": "ls", "call": "c1", "digest": "d", "denied": True},
        {"type": "say", "text": '{"a": 1}'},
        {"type": "error", "text": "refused: no"},
        {"type": "finished", "failure": "error", "detail": "it stopped"},
    ]
    spool = tmp_path / "stdout.log"
    spool.write_text("".join(json.dumps(line) + "\n" for line in said))

    found = read_spool(AcpRuntime(root=HERE, command="x"), spool)

    assert found.calls == (ObservedCall("Bash", "ls", "c1", "d", denied=True),)
    assert found.output == {"a": 1}
    assert found.problems == ("refused: no",)
    assert found.result is not None and found.result.failure == "error"


def test_unreadable_lines_are_problems_and_new_kinds_are_not() -> None:
    for runtime in (CODEX, GEMINI, AcpRuntime(root=HERE, command="x")):
        for line in ("nonsense", "[1]", '"text"', "[" * 100_000):
            assert len(runtime.parse_line(line)) == 1
    assert CODEX.parse_line('{"type":"from.the.future"}') == GEMINI.parse_line('{"type":"from.the.future"}') == ()
