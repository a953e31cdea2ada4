"""A real watcher with the dialects of other agents: judged by the same policy, recorded with the policy's names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from blueflame.model.audit import compute_input_digest
from blueflame.model.policy import CANARY
from support.hook_servers import WatchedAttempt, run_hook_server


def asked(watch: WatchedAttempt, tool: str, given: object, *, event: str = "PreToolUse", **more: object) -> str:
    body = {"hook_event_name": event, "tool_name": tool, "tool_input": given, "cwd": str(watch.folder), **more}
    said: Any = json.loads(watch.post(json.dumps(body).encode()).partition(b"\r\n\r\n")[2])["hookSpecificOutput"]
    return f"{said['permissionDecision']}: {said['permissionDecisionReason']}"


def patch(*lines: str) -> dict[str, str]:
    return {"command": "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))}


def test_a_patch_of_codex_is_judged_file_by_file_and_allowed_as_a_whole(repo: Path) -> None:
    good = patch("*** Add File: src/a.py", "+x", "*** Update File: src/b.py", "@@", "-x", "+y")
    bad = patch("*** Add File: src/a.py", "+x", "*** Add File: .env", "+x")
    with run_hook_server(repo, dialect="codex") as watch:
        watch.prove()
        allowed = asked(watch, "apply_patch", good, tool_use_id="call_1")
        refused = asked(watch, "apply_patch", bad, tool_use_id="call_2")
        unclear = asked(watch, "apply_patch", {"command": "nonsense"}, tool_use_id="call_3")
        lines = watch.lines()[1:]

    assert allowed.startswith("allow")
    assert refused.startswith("deny") and ".env" in refused
    assert unclear.startswith("deny: malformed_call: a patch begins with a line")
    assert [(line["tool"], line["target"], line["call"], line["decision"]) for line in lines] == [
        ("Write", f"{repo}/src/a.py", "call_1", "allow"),
        ("Edit", f"{repo}/src/b.py", "call_1", "allow"),
        ("Write", f"{repo}/src/a.py", "call_2", "block"),
        ("Write", f"{repo}/.env", "call_2", "block"),
        ("", "", "", "block"),
    ]
    assert lines[0]["digest"] == compute_input_digest({"file_path": f"{repo}/src/a.py"})


def test_calls_of_gemini_are_understood_after_the_canary(repo: Path) -> None:
    (repo / "src").mkdir(exist_ok=True)
    with run_hook_server(repo, dialect="gemini") as watch:
        early = asked(watch, "read_file", {"file_path": "src/a.py"}, event="BeforeTool")
        watch.prove()
        answers = [
            asked(watch, tool, given, event="BeforeTool")
            for tool, given in (
                ("write_file", {"file_path": "src/a.py", "content": "x"}),
                ("write_file", {"file_path": ".env", "content": "x"}),
                ("run_shell_command", {"command": "echo x > a.py", "dir_path": "src"}),
                ("run_shell_command", {"command": "echo x > a.py", "dir_path": "/etc"}),
                ("invoke_agent", {"prompt": "x"}),
            )
        ]
        other = asked(watch, "write_file", {"file_path": "src/a.py", "content": "x"}, event="AfterTool")
        tools = [line["tool"] for line in watch.lines()]

    assert early.startswith("deny: canary")
    assert [answer.partition(":")[0] for answer in answers] == ["allow", "deny", "allow", "deny", "deny"]
    assert other.startswith("deny: malformed_call")
    assert tools == ["Read", CANARY, "Write", "Write", "Bash", "Bash", "invoke_agent", ""]


def test_the_hook_can_allow_without_a_word(repo: Path) -> None:
    """Codex takes our JSON for an error and continues as if there were no hook."""
    question = {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": f"{repo}/README.md"}}
    with run_hook_server(repo, dialect="codex") as watch:
        watch.prove()
        hook = watch.env["BLUEFLAME_HOOK"]

        def ask(path: str) -> subprocess.CompletedProcess[bytes]:
            body = {**question, "tool_input": {"file_path": path}, "cwd": str(repo)}
            env = {"PATH": "/usr/bin:/bin", **watch.env}
            return subprocess.run(
                [hook, "quiet"], input=json.dumps(body).encode(), capture_output=True, check=False, env=env, timeout=30
            )

        allowed = watch.during(lambda: ask(f"{repo}/README.md"))
        refused = watch.during(lambda: ask(f"{repo}/.env"))

    assert (allowed.returncode, allowed.stdout, allowed.stderr) == (0, b"", b"")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b".env" in refused.stderr
