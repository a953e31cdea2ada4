"""Whether git fails for a commit of ours, too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.repository import open_repository
from blueflame.git.results import list_refs
from blueflame.orchestrator.attempts.probe_git import can_collect

REF = "refs/blueflame/attempts/ses-20260101-000000/task-001/work/1"


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_a_whole_git_reads_a_commit_of_ours_and_keeps_nothing_of_it(
    tmp_path: Path, git: Callable[..., str], form: str
) -> None:
    root = tmp_path / "мой repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main", f"--object-format={form}")
    git(root, "commit", "-q", "--allow-empty", "-m", "Begin")
    repo = open_repository(root, base_branch="main")
    checkout = root / ".trees" / "worker-1a2b3c4d"
    for _again in range(2):
        assert can_collect(repo, checkout, base=repo.base_sha, ref=REF)
    assert list_refs(repo, "refs/blueflame/") == {}
    assert list((root / ".trees").iterdir()) == []


@pytest.mark.parametrize("failing", ["pack-objects", "unpack-objects", "log", "commit-tree", "rev-list"])
def test_a_git_that_fails_by_itself_is_found(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    ours, real = open_repository(repo, base_branch="main"), shutil.which("git")
    (tmp_path / "git").write_text(f'#!/bin/sh\ncase " $* " in *" {failing} "*) exit 128;; esac\nexec {real} "$@"\n')
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert not can_collect(ours, repo / ".trees" / "worker-1a2b3c4d", base=ours.base_sha, ref=REF)
