"""Throwaway git repositories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blueflame.git.command import build_identity_environment, run_git


def create_throwaway_repository(path: Path, files: Mapping[str, str]) -> Path:
    """Create a real repository at `path` with one commit on main that holds the files."""
    path.mkdir(parents=True, exist_ok=True)
    run_git(path, "init", "-q", "-b", "main")
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    run_git(path, "add", "-A")
    run_git(path, "commit", "-q", "--allow-empty", "-m", "Begin", env=build_identity_environment(path))
    return path
