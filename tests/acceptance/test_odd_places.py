"""Unusual but valid repositories: a session runs there, reports what it leaves out, and changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import YES, Said, configure, here, write
from support.repositories import make_repository, run_git

pytestmark = pytest.mark.usefixtures("forked_wardens", "guards_are_known")


def play(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    configure(root)
    monkeypatch.chdir(root)
    answers = write(root.parent / "решения.yaml", YES)
    return here(capsys, "run", "--task", "Добавь", "-w", "direct", "--decisions-file", answers, "--json")


def test_a_detached_head_stays_where_it_is(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(repo, "checkout", "-q", "--detach")
    before = run_git(repo, "rev-parse", "HEAD")
    assert play(repo, capsys, monkeypatch).code == 0
    assert run_git(repo, "rev-parse", "HEAD") == before
    assert run_git(repo, "rev-parse", "main") != before
    assert "detached HEAD" in here(capsys, "doctor").out


def test_submodules_are_named_and_left_alone(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository(tmp_path / "другой")
    run_git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "vendor/other lib")
    run_git(repo, "commit", "-q", "-m", "feat(task-000): vendor")
    said = play(repo, capsys, monkeypatch)
    assert said.code == 0, said.err
    assert "submodules are left empty in agents' checkouts: vendor/other lib" in said.err
    assert (repo / "vendor" / "other lib" / "README.md").exists()
    assert run_git(repo, "status", "--porcelain") == "?? blueflame.yaml\n"


def test_a_shallow_clone_will_do(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(repo, "commit", "-q", "--allow-empty", "-m", "feat(task-000): more")
    shallow = tmp_path / "мелкий"
    run_git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), str(shallow))
    assert play(shallow, capsys, monkeypatch).code == 0
    assert "shallow clone" in here(capsys, "doctor").out


def test_a_session_is_found_from_a_folder_below(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = play(repo, capsys, monkeypatch).json["session"]
    monkeypatch.chdir(repo / "src")
    assert here(capsys, "status", "--json").json["session"] == name
    monkeypatch.chdir(repo.parent)
    assert here(capsys, "status", "--json", "--config", repo / "blueflame.yaml").json["session"] == name
