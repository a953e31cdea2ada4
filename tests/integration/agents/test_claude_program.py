"""Which claude is found, and why one is not accepted. Programs are small scripts, or the real one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from blueflame.agents.claude import ClaudeRuntime, build_runtime
from blueflame.agents.claude.program import (
    MIN_VERSION,
    REQUIRED_FLAGS,
    find_bundled,
    find_claude,
    find_native,
    probe_program,
)
from blueflame.agents.programs import is_native, parse_version
from support.real_agents import find_bundled_claude, needs_claude

HELP = "\n".join(f"  {flag} <x>   words" for flag in REQUIRED_FLAGS)


def program(path: Path, *, version: str = "2.1.325 (Claude Code)", offers: str = HELP) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\ncase $1 in --version) echo "{version}";; --help) cat <<"E"\n{offers}\nE\n;; esac\n')
    path.chmod(0o755)
    return path


def problems(path: Path) -> str:
    return "\n".join(build_runtime({"command": str(path)}, path.parent).find_problems())


def test_a_named_program_is_preferred_to_the_one_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, other = program(tmp_path / "мой" / "claude"), program(tmp_path / "bin" / "claude")
    monkeypatch.setenv("PATH", str(other.parent))

    for words in ("мой/claude --once", f"'{named}' --once"):
        found = find_claude(words, root=tmp_path)
        assert found is not None
        assert (found.argv, found.needs) == ((str(named), "--once"), (named,))
    on_path = find_claude(None, root=tmp_path)
    assert on_path is not None
    assert on_path.argv == (str(other),)


def test_what_is_not_there_or_cannot_be_run_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    for command in ("./claude", "./nowhere", "no-such-claude", "'open quote", "./"):
        assert find_claude(command, root=tmp_path) is None


def test_a_link_is_followed_to_what_the_sandbox_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    real = program(tmp_path / "versions" / "2.1.325")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").symlink_to(real)

    found = find_claude(None, root=tmp_path)

    assert found is not None
    assert found.path == real


def test_behind_the_script_of_npm_is_the_native_program(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "@anthropic-ai"
    script = program(package / "claude-code" / "bin" / "claude.exe")
    native = package / "claude-code-linux-x64" / "claude"
    native.parent.mkdir()
    native.write_bytes(Path(sys.executable).resolve().read_bytes()[:4096])
    native.chmod(0o755)

    assert is_native(native)
    assert find_native(script) == native
    assert find_native(native) == native
    native.chmod(0o644)
    assert find_native(script) == script
    assert find_native(program(tmp_path / "claude")) == tmp_path / "claude"


def test_a_missing_program_is_reported_with_how_to_install_it(tmp_path: Path) -> None:
    said = problems(tmp_path / "nowhere")

    assert "nowhere" in said
    assert "runtimes.claude.command" in said
    assert "claude-agent-sdk" in said


def test_one_that_lets_calls_through_when_its_hook_fails_is_too_old(tmp_path: Path) -> None:
    assert "2.1.197" in problems(program(tmp_path / "old", version="2.1.197 (Claude Code)"))
    assert "too old: 2.1.295 or newer" in problems(program(tmp_path / "older", version="2.1.99"))
    assert problems(program(tmp_path / "oldest", version=MIN_VERSION)) == ""
    assert problems(program(tmp_path / "newer", version="2.10.0")) == ""


def test_flags_that_are_missing_are_named(tmp_path: Path) -> None:
    lacking = "\n".join(f"  {flag} <x>" for flag in REQUIRED_FLAGS if flag not in ("--tools", "--setting-sources"))

    assert "does not know --setting-sources, --tools;" in problems(program(tmp_path / "claude", offers=lacking))
    near = lacking + "\n --tools-none --no--tools\n --setting-sources <x>"
    assert "does not know --tools;" in problems(program(tmp_path / "near", offers=near))


def test_a_flag_may_be_written_with_its_other_form_in_brackets(tmp_path: Path) -> None:
    offers = HELP.replace("--append-system-prompt-file", "--append-system-prompt[-file],")

    assert problems(program(tmp_path / "claude", offers=offers)) == ""


def test_another_program_of_that_name_is_recognised(tmp_path: Path) -> None:
    assert "is not Claude Code" in problems(program(tmp_path / "claude", version="Claude the composer 3"))


def test_a_program_that_fails_to_start_is_a_problem(tmp_path: Path) -> None:
    broken = tmp_path / "claude"
    broken.write_text("#!/no/such/shell\n")
    broken.chmod(0o755)

    assert "cannot be used" in problems(broken)


def test_it_is_asked_once_as_long_as_the_file_is_the_same(tmp_path: Path) -> None:
    counted = program(tmp_path / "claude")
    counted.write_text(counted.read_text().replace("case $1", f"echo x >> '{tmp_path}/asked'\ncase $1"))
    made = build_runtime({"command": str(counted)}, tmp_path)

    assert made.find_problems() == made.find_problems() == ()
    assert "claude 2.1.325 at" in made.describe_program()
    assert (tmp_path / "asked").read_text().count("x") == 2
    counted.write_text(counted.read_text().replace("2.1.325", "2.1.7"))
    assert "too old" in "".join(made.find_problems())


def test_it_finds_neither_a_home_nor_a_session_to_be_nested_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDECODE", "CLAUDE_CODE_SIMPLE", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "1")
    nosy = program(tmp_path / "claude")
    nosy.write_text(nosy.read_text().replace("case $1", f"env >> '{tmp_path}/env'; touch ~/left-behind\ncase $1"))

    assert problems(nosy) == ""
    seen = (tmp_path / "env").read_text()
    assert not any(name in seen for name in ("CLAUDECODE", "CLAUDE_CODE_SIMPLE", "ANTHROPIC_API_KEY"))
    assert not (Path(os.environ["HOME"]) / "left-behind").exists()


@pytest.mark.parametrize(
    "flag",
    ["--dangerously-skip-permissions", "--bare", "--safe-mode", "--settings=x", "--mcp-config", "-p", "--new-flag"],
)
def test_arguments_that_could_bypass_the_walls_are_refused(tmp_path: Path, flag: str) -> None:
    good = program(tmp_path / "claude")

    (problem,) = ClaudeRuntime(root=tmp_path, command=str(good), args=(flag,)).find_problems()

    assert f"runtimes.claude.args: {flag.partition('=')[0]} " in problem


def test_harmless_arguments_are_accepted(tmp_path: Path) -> None:
    good = program(tmp_path / "claude")

    assert (
        ClaudeRuntime(root=tmp_path, command=str(good), args=("--effort", "high", "--max-turns=40")).find_problems()
        == ()
    )
    assert "prompt" in ClaudeRuntime(root=tmp_path, command=str(good), args=("hello",)).find_problems()[0]


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_SIMPLE",
        "CLAUDE_CODE_SAFE_MODE",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_SOMETHING_NEW",
        "HOME",
        "LD_PRELOAD",
        "BLUEFLAME_HOOK_PORT",
    ],
)
def test_variables_that_could_bypass_the_walls_are_refused(tmp_path: Path, name: str) -> None:
    good = program(tmp_path / "claude")

    (problem,) = ClaudeRuntime(
        root=tmp_path, command=str(good), env={name: "1", "MAX_THINKING_TOKENS": "0"}
    ).find_problems()

    assert f"runtimes.claude.env: {name} " in problem


@needs_claude
def test_the_program_in_the_python_package_has_all_that_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_bundled() == str(find_bundled_claude())
    found = find_claude(None, root=tmp_path)
    assert found is not None
    probed = probe_program(found)
    assert probed.problems == ()
    assert parse_version(probed.version) >= parse_version(MIN_VERSION)
