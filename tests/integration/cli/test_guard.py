"""`blueflame guard`: one agent command, behind the walls that its program can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from blueflame.cli.commands.sandbox import GuardedCommand, read_command
from blueflame.model.errors import UsageError
from blueflame.testing import LoopbackModel
from support.command_line import YES, configure, here, write
from support.guarded_commands import GUARDED_TURNS, check_guarded_budget, check_guarded_command
from support.model_scripts import build_model_script
from support.npm_agents import KEY
from support.real_agents import find_bundled_claude, needs_claude
from support.repositories import run_git
from support.sandboxes import needs_sandbox


@pytest.mark.parametrize(
    ("words", "task", "expected"),
    [
        (["claude", "Fix it"], "", GuardedCommand("claude", "Fix it")),
        (["claude", "-p", "Fix it", "--model", "haiku"], "", GuardedCommand("claude", "Fix it", "haiku")),
        (["codex", "exec", "-m", "gpt-5.5", "Fix it"], "", GuardedCommand("codex", "Fix it", "gpt-5.5")),
        (["gemini", "--prompt", "Fix it"], "Now", GuardedCommand("gemini", "Now\n\nFix it")),
        (["opencode", "run", "Fix", "it"], "", GuardedCommand("opencode", "Fix it")),
        (["claude"], "Fix it", GuardedCommand("claude", "Fix it")),
    ],
)
def test_a_known_program_is_driven_by_its_runtime_with_its_request(
    words: Sequence[str], task: str, expected: GuardedCommand
) -> None:
    assert read_command(words, task) == expected


def test_a_known_program_at_another_place_is_that_program() -> None:
    found = read_command(["/opt/my tools/claude", "Fix it"])
    assert found.list_overrides(["lead"]) == {
        "runtimes.claude": {"kind": "claude", "command": "'/opt/my tools/claude'"},
        "roles.lead.runtime": "claude",
        "limits.max_retries": 0,
    }


def test_any_other_program_is_run_as_it_is() -> None:
    found = read_command(["aider", "--message", "Fix it"])
    assert found.settings == {"kind": "command", "command": "aider", "args": ["--message", "Fix it"]}
    assert found.request == "aider --message 'Fix it'"
    assert read_command(["aider"], "Fix it").request == "Fix it"


@pytest.mark.parametrize(
    "words",
    [["claude"], ["claude", "--dangerously-skip-permissions", "Fix it"], ["codex", "exec"], ["gemini", "-y", "Fix it"]],
)
def test_what_would_weaken_a_wall_or_asks_for_nothing_is_refused(words: Sequence[str]) -> None:
    with pytest.raises(UsageError):
        read_command(words)


@needs_sandbox
@pytest.mark.slow
def test_an_unknown_agent_works_in_the_sandbox_and_its_work_lands(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(repo, {"limits": {"max_session_cost_usd": 1}})
    secret = write(tmp_path / "secret", "hush")
    decisions = write(tmp_path / "decisions.yaml", YES)
    monkeypatch.chdir(repo)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = f"head -c 9 > src/2.txt; cat {secret} >> src/2.txt; touch {tmp_path}/outside; env | grep _BASE_URL"
    words = ("guard", "--task", "Write two", "--decisions-file", decisions, "--", "sh", "-c", f"{agent}; true")
    said = here(capsys, *words)
    assert said.code == 0, said.err
    assert said.out.startswith("sh: no watcher")
    assert run_git(repo, "show", "main:src/2.txt") == "You are a", "the rules are on its standard input"
    assert not (tmp_path / "outside").exists()
    shown = here(capsys, "show", "cs-001").out
    assert "Write two" in shown
    assert "less than all walls" in shown
    log = here(capsys, "log").out
    assert "no watcher" in log
    folder = next((repo / ".blueflame" / "attempts").glob("*.lead.1"))
    output = (folder / "stdout.log").read_text()
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1" in output
    assert "OPENAI_BASE_URL" not in output
    assert "sk-ant-secret" not in (folder / "launch.json").read_text()


@needs_sandbox
def test_a_command_that_fails_is_not_run_again(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(repo)
    monkeypatch.chdir(repo)
    decisions = write(tmp_path / "decisions.yaml", YES)
    said = here(capsys, "guard", "--json", "--decisions-file", decisions, "--", "sh", "-c", "exit 3")
    assert said.code != 0
    (attempt,) = said.json["attempts"]
    assert (attempt["ending"], attempt["unguarded"].partition(":")[0]) == ("failed", "no watcher")


@needs_sandbox
@needs_claude
@pytest.mark.real_claude
@pytest.mark.parametrize("check", [check_guarded_command, check_guarded_budget])
def test_the_real_claude_works_behind_the_walls(
    check: Callable[[Path, pytest.CaptureFixture[str], LoopbackModel, Path], None],
    repo: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(repo)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    program = find_bundled_claude()
    assert program
    with LoopbackModel(build_model_script(*GUARDED_TURNS, key=KEY)) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        check(repo, capsys, model, program)
