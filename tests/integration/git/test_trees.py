"""The files of a commit, from the base and the difference: the same as git lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.git.repository import Repository, open_repository
from blueflame.git.trees import list_tree, list_tree_files

Git = Callable[..., str]


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


def list_by_git(git: Git, ours: Repository, sha: str) -> dict[str, tuple[str, str]]:
    rows = git(ours.root, "ls-tree", "-r", "-z", sha).split("\0")[:-1]
    heads = ((row.partition("\t")[2], row.split()) for row in rows)
    return {path: (words[0], words[2].partition("\t")[0]) for path, words in heads}


def commit_everything(git: Git, ours: Repository) -> str:
    for n in range(3):
        (ours.root / f"имя {n}").write_text(f"{n}\n" * 20)
    git(ours.root, "add", "-A")
    git(ours.root, "commit", "-q", "-m", "first")
    (ours.root / "имя 0").rename(ours.root / "moved\nname")
    (ours.root / "имя 1").chmod(0o755)
    (ours.root / "src" / "app.py").unlink()
    (ours.root / "src" / "app.py").mkdir()
    (ours.root / "src" / "app.py" / "now a folder").write_text("x")
    (ours.root / "README.md").unlink()
    (ours.root / "README.md").symlink_to("имя 2")
    git(ours.root, "add", "-A")
    git(ours.root, "update-index", "--add", "--cacheinfo", f"160000,{ours.base_sha},sub")
    git(ours.root, "commit", "-q", "-m", "second")
    return git(ours.root, "rev-parse", "HEAD").strip()


def test_any_commit_is_listed_as_git_lists_it(ours: Repository, git: Git) -> None:
    tip = commit_everything(git, ours)
    first = git(ours.root, "rev-parse", "HEAD~1").strip()
    for repo in (ours, replace(ours, base_sha=tip), replace(ours, base_sha=first)):
        for sha in (ours.base_sha, first, tip):
            assert list_tree(repo, sha) == list_by_git(git, ours, sha)
    assert "sub" not in list_tree_files(ours, tip)
    assert "moved\nname" in list_tree_files(ours, tip)


def test_a_base_that_is_gone_is_not_needed(ours: Repository, git: Git) -> None:
    tip = commit_everything(git, ours)
    assert list_tree(replace(ours, base_sha="5" * 40), tip) == list_by_git(git, ours, tip)
