"""Where a checkout stands, read without git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.untrusted.branches import read_branch_tip, read_checkout_head
from blueflame.model.errors import GitFailed

Git = Callable[..., str]


def test_head_is_read_on_a_branch_detached_and_packed(repo: Path, git: Git) -> None:
    first = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "checkout", "-q", "-b", "feature/мой-путь")
    assert read_checkout_head(repo) == read_branch_tip(repo, "feature/мой-путь") == first
    git(repo, "pack-refs", "--all")
    assert read_checkout_head(repo) == first
    git(repo, "checkout", "-q", "--detach")
    assert read_checkout_head(repo) == first


def test_a_branch_without_a_commit_has_no_head(repo: Path, git: Git) -> None:
    git(repo, "checkout", "-q", "--orphan", "new")
    assert read_checkout_head(repo) is None


@pytest.mark.parametrize("said", ["", "ref: refs/heads/../../../secret", "ref: refs/tags/x", "main", "x" * 40])
def test_a_head_that_names_nothing_is_a_failure(repo: Path, said: str) -> None:
    (repo / ".git" / "HEAD").write_text(said)
    with pytest.raises(GitFailed):
        read_checkout_head(repo)


def test_a_link_in_the_place_of_head_is_not_followed(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a" * 40)
    (repo / ".git" / "HEAD").unlink()
    (repo / ".git" / "HEAD").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GitFailed):
        read_checkout_head(repo)
