"""What every test gets: a home of its own, git without the person's configuration, UTC."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ада Лавлейс",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ада Лавлейс",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the person's home or git configuration."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "EDITOR", "VISUAL", "BLUEFLAME_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in GIT_IDENTITY.items():
        monkeypatch.setenv(name, value)
    return home


def git(repo: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True, text=True).stdout


@pytest.fixture(name="git")
def git_fixture() -> Callable[..., str]:
    return git


def make_repository(path: Path) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "README.md").write_text("# sample\n")
    (path / "src").mkdir()
    (path / "src" / "app.py").write_text("def answer():\n    return 42\n")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "feat(task-000): begin")
    return path


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A real repository with one commit on main, at a path with a space and non-ASCII letters."""
    return make_repository(tmp_path / "мой repo")
