"""A checkout that an agent left: harmless to look at, and still worth looking at. tests/escape has the attacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.checkouts import get_record_path, make_checkout
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import CollectedResult, collect_result
from blueflame.git.untrusted.disarm import disarm_checkout

Git = Callable[..., str]
BRANCH = "blueflame/ses-20260101-000000/task-001/1"


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


@pytest.fixture
def place(ours: Repository, git: Git) -> Path:
    path = ours.root / ".trees" / "worker-1a2b3c4d"
    make_checkout(ours, path, base=ours.base_sha, branch=BRANCH)
    (path / "src" / "app.py").write_text("committed = 1\n")
    git(path, "commit", "-qam", "Change app")
    (path / "src" / "app.py").write_text("unfinished = 1\n")
    (path / "src" / "fresh.py").write_text("")
    git(path, "add", "src/app.py")
    return path


def list_files(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def test_history_and_unfinished_work_can_still_be_seen(ours: Repository, place: Path, git: Git) -> None:
    disarm_checkout(ours, place)
    assert git(place, "log", "-1", "--format=%s").strip() == "Change app"
    assert git(place, "symbolic-ref", "--short", "HEAD").strip() == BRANCH
    assert git(place, "status", "--porcelain").splitlines() == ["M  src/app.py", "?? src/fresh.py"]
    assert git(place, "fsck", "--no-dangling") == ""


def test_settings_are_those_of_a_new_checkout(ours: Repository, place: Path, git: Git, tmp_path: Path) -> None:
    before = set(git(place, "config", "--local", "--list").lower().split())
    git(place, "config", "core.fsmonitor", "/bin/false")
    git(place, "config", "filter.x.clean", "/bin/false")
    disarm_checkout(ours, place)
    assert set(git(place, "config", "--local", "--list").lower().split()) <= before


def test_the_result_can_be_collected_afterwards(ours: Repository, place: Path) -> None:
    """A crash between disarming and recording the end: the attempt is judged once more."""
    disarm_checkout(ours, place)
    found = collect_result(ours, place, branch=BRANCH, base=ours.base_sha, ref="refs/blueflame/attempts/x")
    assert isinstance(found, CollectedResult)
    assert [commit.subject for commit in found.commits] == ["Change app"]


def test_repeating_it_changes_nothing(ours: Repository, place: Path) -> None:
    disarm_checkout(ours, place)
    once = list_files(place)
    disarm_checkout(ours, place)
    assert list_files(place) == once


def test_honest_repositories_within_stay_as_they_are(ours: Repository, place: Path, git: Git) -> None:
    git(ours.root, "init", "-q", str(place / "fixtures" / "plain"))
    git(ours.root, "init", "-q", "--bare", str(place / "fixtures" / "bare.git"))
    git(place / "fixtures" / "plain", "remote", "add", "origin", "https://example.org/x.git")
    before = list_files(place / "fixtures")
    disarm_checkout(ours, place)
    assert list_files(place / "fixtures") == before


def test_a_sha256_repository_can_be_read_afterwards(tmp_path: Path, git: Git) -> None:
    root = tmp_path / "long ids"
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", str(root))
    git(root, "commit", "-q", "--allow-empty", "-m", "Begin")
    ours = open_repository(root, base_branch="main")
    path = root / ".trees" / "worker-1a2b3c4d"
    make_checkout(ours, path, base=ours.base_sha, branch=BRANCH)
    disarm_checkout(ours, path)
    assert git(path, "log", "--format=%s").strip() == "Begin"


def test_a_folder_that_is_no_checkout_of_ours_is_not_touched(ours: Repository, place: Path, git: Git) -> None:
    get_record_path(place).unlink()
    git(place, "config", "core.pager", "less")
    disarm_checkout(ours, place)
    assert git(place, "config", "core.pager").strip() == "less"
