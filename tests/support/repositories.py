"""Real repositories for tests, and the identity of their commits."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ада Лавлейс",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ада Лавлейс",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def run_git(repo: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True, text=True).stdout


def copy_repository(template: Path, path: Path) -> Path:
    shutil.copytree(template, path, symlinks=True)
    run_git(path, "update-index", "-q", "--refresh")  # the index knows the files by their inodes
    return path


def make_repository(path: Path) -> Path:
    """A copy of one that is made once in each process: git is started once instead of three times."""
    return copy_repository(_make_template(), path)


@cache
def _make_template() -> Path:
    folder = tempfile.mkdtemp(prefix="blueflame-template-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "repository"
    run_git(Path(folder), "init", "-q", "-b", "main", str(path))
    for sample in (path / ".git" / "hooks").glob("*.sample"):
        sample.unlink()
    (path / "README.md").write_text("# sample\n")
    (path / "src").mkdir()
    (path / "src" / "app.py").write_text("def answer():\n    return 42\n")
    run_git(path, "add", "-A")
    run_git(path, "commit", "-q", "-m", "Begin")
    return path
