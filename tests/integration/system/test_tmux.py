"""Windows on a real tmux server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.system.tmux import TmuxWindow, find_problems, format_session_name, has_session, open_window
from support.wardens import wait_until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server of our own; its socket wants a short path."""
    monkeypatch.delenv("TMUX", raising=False)
    with tempfile.TemporaryDirectory(prefix="bf-") as place:
        monkeypatch.setenv("TMUX_TMPDIR", place)
        yield
        subprocess.run(["tmux", "kill-server"], check=False, capture_output=True)


@pytest.mark.parametrize(
    ("role", "session"), [("worker", "cc-worker"), ("review.git:1", "cc-review-git-1"), ("Полли", "cc-agent")]
)
def test_a_session_is_named_for_its_role(role: str, session: str) -> None:
    assert format_session_name(role) == session


@pytest.mark.usefixtures("server")
def test_a_name_that_is_taken_does_not_stand_in_the_way(tmp_path: Path) -> None:
    argv = ("sleep", "600")
    names = [open_window("cc-worker", argv, cwd=tmp_path) for _ in range(3)]
    assert names == [TmuxWindow("cc-worker"), TmuxWindow("cc-worker-2"), TmuxWindow("cc-worker-3")]
    assert has_session("cc-worker-2")
    assert not has_session("cc-work")


@pytest.mark.usefixtures("server")
def test_what_runs_in_a_window_is_not_taken_for_claudes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    out = tmp_path / "мой env"
    open_window("cc-worker", ("sh", "-c", 'env > "$0.new"; pwd >> "$0.new"; mv "$0.new" "$0"', str(out)), cwd=tmp_path)
    wait_until(out.exists, "the window has run")
    lines = out.read_text().splitlines()
    assert not [line for line in lines if line.startswith("CLAUDECODE")]
    assert lines[-1] == str(tmp_path)
    wait_until(lambda: not has_session("cc-worker"), "the session ends with what runs in it")


@pytest.mark.usefixtures("server")
def test_without_a_server_there_is_no_session() -> None:
    assert not has_session("cc-worker")


def test_what_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_problems() == ()
    monkeypatch.setenv("PATH", "/nowhere")
    (missing,) = find_problems()
    assert "tmux was not found" in missing
