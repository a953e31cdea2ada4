"""Checkouts of a repository that was moved to another path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.checkouts import make_checkout
from blueflame.git.repository import Repository, open_repository
from blueflame.git.untrusted.moved import follow_repository

Git = Callable[..., str]
BRANCH = "blueflame/ses-20260101-000000/task-001/1"
ALTERNATES = Path(".git", "objects", "info", "alternates")


@pytest.fixture
def moved(repo: Path) -> Repository:
    """A repository that was moved after a checkout was made in it."""
    ours = open_repository(repo, base_branch="main")
    make_checkout(ours, repo / ".trees" / "worker-1a2b3c4d", base=ours.base_sha, branch=BRANCH)
    return open_repository(repo.rename(repo.with_name("новый place")), base_branch="main")


def test_a_checkout_finds_the_objects_of_a_moved_repository(moved: Repository, git: Git) -> None:
    place = moved.root / ".trees" / "worker-1a2b3c4d"
    follow_repository(moved, place.parent)
    assert git(place, "status", "--porcelain") == ""
    assert (place / ALTERNATES).read_text() == f"{moved.objects}\n"

    back = open_repository(moved.root.rename(moved.root.with_name("back")), base_branch="main")
    follow_repository(back, back.root / ".trees")
    assert git(back.root / ".trees" / place.name, "rev-parse", "HEAD").strip() == moved.base_sha


@pytest.mark.parametrize("how", ["another text", "a link", "a linked folder"])
def test_what_an_agent_put_there_is_left_for_its_judgment(moved: Repository, tmp_path: Path, how: str) -> None:
    place = moved.root / ".trees" / "worker-1a2b3c4d"
    file, other = place / ALTERNATES, tmp_path / "other"
    other.mkdir()
    (other / "alternates").write_bytes(file.read_bytes())
    if how == "another text":
        file.write_text("/elsewhere\n")
    elif how == "a link":
        file.unlink()
        file.symlink_to(other / "alternates")
    else:
        file.parent.rename(place / "aside")
        file.parent.symlink_to(other)
    before = file.read_bytes()
    follow_repository(moved, place.parent)
    assert file.read_bytes() == before
