from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.checkouts import make_checkout
from blueflame.git.repository import Repository, open_repository
from blueflame.git.untrusted.unfinished import commit_unfinished
from support.sessions import git


@pytest.fixture
def ours(repo: Path) -> Repository:
    for name, text in {"src/a.txt": "a\n", "имя с пробелом.txt": "i\n", ".gitignore": "build/\n"}.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "begin")
    return open_repository(repo, base_branch="main")


@pytest.fixture
def checkout(ours: Repository, tmp_path: Path) -> Path:
    path = tmp_path / "trees" / "worker-1"
    path.parent.mkdir()
    make_checkout(ours, path, base=ours.base_sha, branch="work")
    return path


ALL: Callable[[str], bool] = lambda _path: True


def test_changes_additions_and_deletions_are_kept_and_staged_for_the_next(
    ours: Repository, checkout: Path, tmp_path: Path
) -> None:
    (checkout / "src" / "a.txt").write_text("A\n")
    (checkout / "имя с пробелом.txt").unlink()
    (checkout / "src" / "run.sh").write_text("#!/bin/sh\n")
    (checkout / "src" / "run.sh").chmod(0o755)
    (checkout / "build").mkdir()
    (checkout / "build" / "out").write_text("x")

    kept = commit_unfinished(ours, checkout, ours.base_sha, ALL)
    assert kept is not None
    make_checkout(ours, tmp_path / "trees" / "worker-2", base=kept, branch="next", head=ours.base_sha)

    following = tmp_path / "trees" / "worker-2"
    assert git(following, "rev-parse", "HEAD").strip() == ours.base_sha
    staged = git(following, "-c", "core.quotePath=false", "diff", "--cached", "--name-status", "--summary")
    assert [line.split("\t") for line in staged.splitlines() if "\t" in line] == [
        ["M", "src/a.txt"],
        ["A", "src/run.sh"],
        ["D", "имя с пробелом.txt"],
    ]
    assert (following / "src" / "run.sh").stat().st_mode & 0o100
    assert not (following / "build").exists()


def test_links_and_what_may_not_be_changed_are_left_out(ours: Repository, checkout: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    (checkout / "src" / "link").symlink_to(secret)
    (checkout / "src" / "b.txt").write_text("b\n")
    (checkout / "other.txt").write_text("o\n")

    kept = commit_unfinished(ours, checkout, ours.base_sha, lambda path: path.startswith("src/"))

    assert kept is not None
    assert git(ours.root, "diff", "--name-only", ours.base_sha, kept).split() == ["src/b.txt"]


def test_a_clean_checkout_has_nothing_unfinished(ours: Repository, checkout: Path) -> None:
    assert commit_unfinished(ours, checkout, ours.base_sha, ALL) is None


@pytest.mark.parametrize("left", [True, False], ids=["its folder is empty", "its folder is gone"])
def test_files_of_a_removed_checkout_are_not_deleted_by_its_agent(ours: Repository, checkout: Path, left: bool) -> None:
    shutil.rmtree(checkout)
    if left:
        checkout.mkdir()
    assert commit_unfinished(ours, checkout, ours.base_sha, ALL) is None


def test_filters_and_hooks_of_the_agent_do_not_run(ours: Repository, checkout: Path, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    git(checkout, "config", "filter.evil.clean", f"touch '{proof}'; cat")
    (checkout / ".gitattributes").write_text("* filter=evil\n")
    (checkout / "src" / "b.txt").write_text("b\n")

    assert commit_unfinished(ours, checkout, ours.base_sha, ALL) is not None
    assert not proof.exists()
