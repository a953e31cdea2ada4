"""Programs of the repository are not run to find out what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.agents.programs import locate_command
from blueflame.agents.registry import build_runtime


def plant(path: Path, canary: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0" >> "{canary}"\necho 99.0.0\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "opencode", "acp"])
@pytest.mark.parametrize(
    "named", ["./tools/agent", "{repo}/tools/agent", "{repo}/../way/tools/agent", "/bin/sh {repo}/tools/agent"]
)
def test_a_program_inside_the_repository_is_refused_and_never_run(
    repo: Path, tmp_path: Path, kind: str, named: str
) -> None:
    canary = tmp_path / "канарейка"
    plant(repo / "tools" / "agent", canary)
    (tmp_path / "way").symlink_to(repo)
    command = named.format(repo=f"'{repo}'")
    runtime = build_runtime(kind, {"command": command, "name": kind, "repo": str(repo)}, repo)
    (problem,) = runtime.find_problems()
    assert f"runtimes.{kind}.command" in problem
    assert "is inside the repository" in problem
    assert not canary.exists()


def test_a_program_outside_of_the_repository_is_tried(repo: Path, tmp_path: Path) -> None:
    """Without this, the canary above would prove nothing."""
    canary = tmp_path / "канарейка"
    program = plant(tmp_path / "tools" / "agent", canary)
    build_runtime("codex", {"command": f"'{program}'", "name": "codex", "repo": str(repo)}, repo).find_problems()
    assert canary.exists()


def test_a_program_that_fails_is_shown_with_its_exit_code_and_its_words(repo: Path, tmp_path: Path) -> None:
    program = plant(tmp_path / "tools" / "agent", tmp_path / "канарейка")
    runtime = build_runtime("codex", {"command": f"'{program}'", "name": "codex", "repo": str(repo)}, repo)
    program.write_text("#!/bin/sh\necho 'needs GLIBC_2.99' >&2\nexit 139\n")
    (problem,) = runtime.find_problems()
    assert "agent cannot be used: it fails with exit code 139: needs GLIBC_2.99; install it with" in problem
    program.chmod(0o644)
    (problem,) = runtime.find_problems()
    assert "was not found, or cannot be run; install it with" in problem


def test_a_relative_folder_on_the_path_is_not_searched(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(repo / "node_modules" / ".bin" / "codex", tmp_path / "канарейка")
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", "node_modules/.bin:.:/nowhere")
    assert locate_command("codex", root=repo) is None
