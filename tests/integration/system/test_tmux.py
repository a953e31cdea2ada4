"""Windows on a real tmux server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.system.tmux import TmuxWindow, find_problems, format_session_name, open_window
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
    assert format_session_name(role, ad_hoc=True) == session.replace("cc-", "cc-adhoc-")


def run_tmux(*words: str) -> str:
    return subprocess.run(["tmux", *words], check=False, capture_output=True, text=True).stdout


@pytest.mark.usefixtures("server")
def test_an_existing_session_is_adopted_and_a_seat_has_one_window(tmp_path: Path) -> None:
    run_tmux("new-session", "-d", "-s", "cc-worker", "-n", "theirs", "sleep 600")  # of another program
    argv = ("sleep", "600")
    opened = [open_window("cc-worker", key, argv, key=f"shop {key}", cwd=tmp_path) for key in ("one", "two", "one")]
    assert opened == [TmuxWindow("cc-worker", 1), TmuxWindow("cc-worker", 2), TmuxWindow("cc-worker", 1)]
    assert run_tmux("list-windows", "-t", "=cc-worker", "-F", "#{window_name}").splitlines() == ["theirs", "one", "two"]
    assert open_window("cc-adhoc-worker", "one", argv, key="shop one", cwd=tmp_path).session == "cc-adhoc-worker"
    assert run_tmux("list-sessions", "-F", "#{session_name}").splitlines() == ["cc-adhoc-worker", "cc-worker"]


@pytest.mark.usefixtures("server")
def test_what_runs_in_a_window_is_not_taken_for_claudes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    out = tmp_path / "мой env"
    argv = ("sh", "-c", 'env > "$0.new"; pwd >> "$0.new"; mv "$0.new" "$0"', str(out))
    open_window("cc-worker", "worker", argv, key="shop worker", cwd=tmp_path)
    wait_until(out.exists, "the window has run")
    lines = out.read_text().splitlines()
    assert not [line for line in lines if line.startswith("CLAUDECODE")]
    assert lines[-1] == str(tmp_path)
    wait_until(lambda: "cc-worker" not in run_tmux("list-sessions"), "the session ends with what runs in it")


def test_what_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_problems() == ()
    monkeypatch.setenv("PATH", "/nowhere")
    (missing,) = find_problems()
    assert "tmux was not found" in missing
