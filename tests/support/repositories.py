"""Real repositories for tests, and the identity of their commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ада Лавлейс",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ада Лавлейс",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def run_git(repo: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True, text=True).stdout


def make_repository(path: Path) -> Path:
    path.mkdir(parents=True)
    run_git(path, "init", "-q", "-b", "main")
    (path / "README.md").write_text("# sample\n")
    (path / "src").mkdir()
    (path / "src" / "app.py").write_text("def answer():\n    return 42\n")
    run_git(path, "add", "-A")
    run_git(path, "commit", "-q", "-m", "feat(task-000): begin")
    return path
