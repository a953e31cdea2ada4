"""`blueflame policy check` and `explain`, as programs and as people call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.command_line import MAIN, START, here

GOOD = "schema_version: 2\nproject: {name: x}\n"


@pytest.fixture(autouse=True)
def configured(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (repo / "blueflame.yaml").write_text(GOOD)
    monkeypatch.chdir(repo)
    return repo


def answers(lines: Sequence[bytes | dict[str, Any]], *argv: object, cwd: Path | None = None) -> list[dict[str, str]]:
    """What a process of its own says to these lines."""
    said = b"\n".join(json.dumps(line).encode() if isinstance(line, dict) else line for line in lines)
    words, begin = START.prepare(["policy", "check", *map(str, argv)], os.environ, False)
    done = subprocess.run(words, preexec_fn=begin, input=said, capture_output=True, check=False, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(tool: str, **given: object) -> dict[str, Any]:
    return {"tool_name": tool, "tool_input": given}


def test_each_line_gets_one_decision() -> None:
    found = answers(
        [
            call("Write", file_path="src/новый.py", content="x"),
            call("Write", file_path=".env", content="x"),
            call("Bash", command="git status"),
            call("Bash", command="git push"),
            call("Task", prompt="x"),
            call("Nonsense"),
        ]
    )
    assert [each["decision"] for each in found] == ["allow", "deny", "allow", "deny", "deny", "deny"]
    assert [each["rule"] for each in found[1:]] == [
        *("blocked_path", "allowed", "command_not_allowed", "tool_blocked", "tool_not_allowed"),
    ]
    assert all(each.keys() == {"decision", "rule", "details"} for each in found)
    assert all(each["details"] for each in found if each["decision"] == "deny")


GARBAGE = [
    b"garbage",
    b"{",
    b"[]",
    b"null",
    b"7",
    b"{}",
    b"\xff\xfe\x00",
    b'{"tool_input":{}}',
    b'{"tool_name":7}',
    b'{"tool_name":"Bash","tool_input":"ls"}',
    b'{"tool_name":"Bash","tool_input":{"command":{}}}',
    b'{"tool_name":"Read","tool_input":{"file_path":"\\ud800"}}',
    b'{"tool_name":"\\u001b[2J","tool_input":{}}',
    b"[" * 200_000,
    b'{"a":' * 200_000,
    b"\x00",
    b'{"tool_name":"Write","tool_input":{"file_path":"src/a.py","content":"' + b"x" * 11_000_000 + b'"}}',
]


def test_garbage_is_denied_line_by_line_and_never_a_trace() -> None:
    found = answers([*GARBAGE, call("Read", file_path="src/app.py")])
    assert [each["decision"] for each in found] == ["deny"] * len(GARBAGE) + ["allow"]
    odd = {"control_characters", "tool_not_allowed", "malformed_call"}
    assert {each["rule"] for each in found[:-1]} == odd


def test_blank_lines_are_passed_over_and_no_lines_are_fine() -> None:
    assert len(answers([b"", b"  ", b"\r", call("Nonsense"), b""])) == 1
    assert answers([]) == []


def test_answers_come_line_by_line() -> None:
    command = [sys.executable, "-c", MAIN, "policy", "check"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for path, decision in (("src/a", "allow"), ("/etc/passwd", "deny"), ("src/b", "allow")):
            process.stdin.write(json.dumps(call("Read", file_path=path)).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["decision"] == decision
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_reader_that_has_seen_enough_is_no_bug() -> None:
    line = json.dumps(call("Nonsense")).encode() + b"\n"
    command = [sys.executable, "-c", MAIN, "policy", "check"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        process.stdin.write(line * 3)
        process.stdin.close()
        assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_the_role_and_the_scope_count(configured: Path) -> None:
    write = call("Write", file_path="src/app.py", content="")
    assert answers([write], "--scope", "src/app.py")[0]["decision"] == "allow"
    assert answers([write], "--scope", configured / "src")[0]["decision"] == "allow"
    assert answers([write], "--scope", "docs", "--scope", "tests")[0]["rule"] == "outside_file_scope"
    assert answers([write], "--role", "validator")[0]["rule"] == "tool_not_allowed"
    assert answers([call("StructuredOutput", status="pass")], "--role", "validator")[0]["decision"] == "allow"


def test_it_works_without_a_repository(tmp_path: Path) -> None:
    bare, config = tmp_path / "без git", tmp_path / "настройки.yaml"
    (bare / "src").mkdir(parents=True)
    config.write_text(GOOD)
    lines = [
        {**call("Write", file_path=str(bare / "src" / "x.py"), content=""), "cwd": str(bare)},
        call("Write", file_path=f"{bare}-evil/src/x.py", content=""),
        call("Write", file_path=str(tmp_path / "x"), content=""),
        {**call("Read", file_path="src/x.py"), "cwd": str(tmp_path)},
    ]
    found = answers(lines, "--config", config, "--worktree", bare, cwd=tmp_path)
    assert [each["rule"] for each in found] == ["allowed", *["outside_worktree"] * 3]


def test_a_private_folder_is_one_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    lines = [call("Write", file_path=str(tmp_path / "own" / "x"), content="")]
    assert answers(lines)[0]["rule"] == "outside_worktree"
    assert answers(lines, "--scratch", tmp_path / "own")[0]["decision"] == "allow"


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("--role", "wroker"), "worker"),
        (("--role", "nobody-at-all"), "planner"),
        (("--scope", "../x"), "--scope"),
        (("--scope", ""), "--scope"),
        (("--scope", "/etc"), "--scope"),
        (("--worktree", "nowhere"), "not a folder"),
        (("--config", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_a_wrong_flag_is_reported(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], word: str) -> None:
    for verb in ("check", "explain"):
        said = here(capsys, "policy", verb, *argv)
        assert (said.code, said.out) == (2, "")
        assert word in said.err


def test_people_see_what_a_role_may_do(capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "policy", "explain", "--scope", "src/a b")
    for word in ("worker", "src/**", "src/a b", ".env*", "git commit", "mcp__*"):
        assert word in said.out
    said = here(capsys, "policy", "explain", "--role", "validator")
    assert "nothing: this role only reads" in said.out and "StructuredOutput" in said.out


def test_people_see_how_a_call_is_judged_and_how_to_allow_it(capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "policy", "explain", "Write", "src/x.py")
    assert said.code == 0 and "is allowed" in said.out
    said = here(capsys, "policy", "explain", "Write", ".env\x1b[2J")
    assert said.code == 0 and "\x1b" not in said.out and "control_characters" in said.out
    said = here(capsys, "policy", "explain", "Write", "README.md")
    assert "path_not_allowed" in said.out and "permissions.allowed_paths" in said.out
    said = here(capsys, "policy", "explain", "Bash", "git push")
    assert "command_not_allowed" in said.out and "allowed_commands" in said.out and "landed for you" in said.out
    assert "is allowed" in here(capsys, "policy", "explain", "Grep", "src").out
    assert "blocked_path" in here(capsys, "policy", "explain", "Glob", "**/.env").out
    assert "tool_blocked" in here(capsys, "policy", "explain", "Task", "look around").out


def test_a_tool_without_its_argument_is_asked_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "policy", "explain", "Write")
    assert said.code == 2 and "blueflame policy explain Write ARGUMENT" in said.err


def test_programs_get_the_same_as_json(capsys: pytest.CaptureFixture[str], configured: Path) -> None:
    found = here(capsys, "policy", "explain", "--json").json
    assert (found["role"], found["worktree"], found["scope"]) == ("worker", str(configured), None)
    assert found["allowed_paths"] == ["src/**", "tests/**", "docs/**"]
    found = here(capsys, "policy", "explain", "Write", "README.md", "--json").json
    assert found.keys() == {"decision", "rule", "details", "how_to_allow"}


def test_the_top_of_the_repository_is_the_worktree(capsys: pytest.CaptureFixture[str], configured: Path) -> None:
    inner = configured / "src" / "part.yaml"
    inner.write_text(GOOD)
    assert here(capsys, "policy", "explain", "--json", "--config", inner).json["worktree"] == str(configured)
