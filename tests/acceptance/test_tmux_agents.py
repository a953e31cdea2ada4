"""Agents that a person watches in tmux: the real Claude Code in its sandbox, a real tmux server, our own model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.testing import LoopbackModel
from support.command_line import YES, configure, finish, found_in, launched, until, write
from support.model_scripts import KEY, build_model_script, build_worker_scenario, build_write_turns
from support.real_agents import needs_claude
from support.repositories import run_git

pytestmark = [
    pytest.mark.real_claude,
    pytest.mark.slow,
    needs_claude,
    pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


def tmux(*words: str) -> str:
    return subprocess.run(["tmux", *words], capture_output=True, text=True, check=False).stdout


@pytest.fixture(autouse=True)
def tmux_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Our own server; its socket needs a short path."""
    monkeypatch.delenv("TMUX", raising=False)
    with tempfile.TemporaryDirectory(prefix="bf-") as place:
        monkeypatch.setenv("TMUX_TMPDIR", place)
        yield
        tmux("kill-server")


@pytest.fixture(autouse=True)
def no_keys_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def test_a_worker_is_watched_in_tmux_its_work_lands_and_its_window_stays(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(repo, {"roles": {"worker": {"runtime": "tmux", "model": "sonnet"}}, "planning": {"workflow": "single"}})
    decisions = write(tmp_path / "решения.yaml", YES)
    tmux("new-session", "-d", "-s", "cc-worker", "-n", "other", "sleep 600")  # of another program: it is adopted
    turns = build_write_turns("src/barn.txt", "crimson\n")
    turns[-1]["delay"] = 3.0  # seconds, in which the window can be looked at
    with LoopbackModel(build_model_script(build_worker_scenario("task-001", *turns))) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        with launched("run", "--task", "Paint the barn", "--decisions-file", decisions, "--json", cwd=repo) as session:
            until(lambda: "barn" in tmux("capture-pane", "-p", "-t", "=cc-worker:1"), what="the agent in its window")
            said = finish(session)
    assert said.code == 0, said.err
    (attempt,) = said.json["attempts"]
    assert attempt["ending"] == "passed"
    assert run_git(repo, "show", "main:src/barn.txt") == "crimson\n"
    until(
        lambda: (
            "task-001: passed. worker-1 waits for the next session." in tmux("capture-pane", "-p", "-t", "=cc-worker:1")
        ),
        what="the window stays and says what it waits for",
    )
    assert tmux("list-windows", "-t", "=cc-worker", "-F", "#{window_name}") == f"other\nworker-1 {repo.name}\n"
    folder = repo / ".blueflame" / "attempts" / attempt["id"]
    assert json.loads((folder / "tmux.json").read_text()) == {"session": "cc-worker", "window": 1, "pane": 0}
    assert "CLAUDECODE" not in json.loads((folder / "launch.json").read_text())["env"]
    assert found_in(repo)["outcome"] == "completed"
