"""The demo: a small project, the script of its agents, and the decisions at its gates."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from blueflame.git.command import build_identity_environment, run_git
from blueflame.lazy_dataclass import dataclass

REQUEST = "Let tally count more than words, and offer it as a command."


@dataclass(frozen=True, slots=True)
class Demo:
    repo: Path
    script: Path
    decisions: Path


def create_demo(folder: Path) -> Demo:
    """Create a repository with one commit, and next to it the script and the decisions."""
    repo = folder / "tally"
    with as_file(files("blueflame.demo")) as assets:
        shutil.copytree(assets / "sample", repo, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("script.yaml", "decisions.yaml"):
            shutil.copy(assets / name, folder / name)
    (repo / ".gitignore").write_text("__pycache__/\n")
    run_git(repo, "init", "-q", "-b", "main")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-q", "-m", "Begin tally", env=build_identity_environment(repo))
    return Demo(repo, folder / "script.yaml", folder / "decisions.yaml")
