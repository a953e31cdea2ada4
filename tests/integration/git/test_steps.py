"""What an agent can put into its history, with real git: only its own commits, of a size that can be checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.checkouts import make_checkout
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import collect_result, list_changes, list_step_changes, read_diff
from blueflame.model.errors import GitFailed

Git = Callable[..., str]
BRANCH = "blueflame/ses-20260101-000000/task-001/1"
REF = "refs/blueflame/attempts/ses-20260101-000000/task-001/1"


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


@pytest.fixture
def theirs(ours: Repository) -> Path:
    place = ours.root / ".trees" / "worker-1a2b3c4d"
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    return place


def commit(git: Git, place: Path, **files: bytes) -> str:
    for name, content in files.items():
        (place / f"{name}.txt").write_bytes(content)
    git(place, "add", "-A")
    git(place, "commit", "-q", "--allow-empty", "-m", "feat(task-001): work")
    return git(place, "rev-parse", "HEAD").strip()


def collect(ours: Repository, theirs: Path) -> None:
    collect_result(ours, theirs, branch=BRANCH, base=ours.base_sha, ref=REF)


def test_a_private_branch_cannot_be_merged_into_a_result(ours: Repository, theirs: Path, git: Git) -> None:
    git(ours.root, "checkout", "-q", "-b", "private")
    private = commit(git, ours.root, plans=b"not for others\n")
    git(ours.root, "checkout", "-q", "main")
    commit(git, theirs, a=b"work\n")
    git(theirs, "merge", "-q", "-s", "ours", "-m", "feat(task-001): both", private)

    with pytest.raises(GitFailed, match="1 commits of the result are on another branch"):
        collect(ours, theirs)


def test_a_commit_that_began_before_the_base_cannot_be_merged(ours: Repository, theirs: Path, git: Git) -> None:
    root = git(theirs, "rev-list", "--max-parents=0", "HEAD").strip()
    commit(git, theirs, a=b"work\n")
    side = git(theirs, "commit-tree", "-p", root, "-m", "feat(task-001): side", "HEAD^{tree}").strip()
    git(theirs, "merge", "-q", "-s", "ours", "-m", "feat(task-001): both", side)
    if root == ours.base_sha:
        pytest.skip("the base of this repository is its first commit")

    with pytest.raises(GitFailed, match="not part of the result"):
        collect(ours, theirs)


def test_own_branches_may_be_merged(ours: Repository, theirs: Path, git: Git) -> None:
    git(theirs, "checkout", "-q", "-b", "side")
    side = commit(git, theirs, b=b"side\n")
    git(theirs, "checkout", "-q", BRANCH)
    commit(git, theirs, a=b"work\n")
    git(theirs, "merge", "-q", "-m", "feat(task-001): both", side)

    collect(ours, theirs)


def test_each_commit_is_compared_with_its_first_parent(ours: Repository, theirs: Path, git: Git) -> None:
    first = commit(git, theirs, a=b"\0\1binary")
    (theirs / "a.txt").unlink()
    second = commit(git, theirs, b=b"text\n")
    collect(ours, theirs)

    steps = list_step_changes(ours, ours.base_sha, second)

    assert {sha: [(one.status, one.path, one.binary) for one in changes] for sha, changes in steps.items()} == {
        first: [("A", "a.txt", True)],
        second: [("D", "a.txt", False), ("A", "b.txt", False)],
    }
    assert [one.path for one in list_changes(ours, ours.base_sha, second)] == ["b.txt"]


def test_attributes_do_not_decide_what_is_binary(ours: Repository, theirs: Path, git: Git) -> None:
    (ours.root / ".gitattributes").write_text("lock.txt -diff\ntool.txt diff\n")
    tip = commit(git, theirs, lock=b"one\ntwo\n", tool=b"\x7fELF\0\0\0", wide="text\n".encode("utf-16"))
    collect(ours, theirs)

    found = {one.path: (one.binary, one.added) for one in list_changes(ours, ours.base_sha, tip)}

    assert found == {"lock.txt": (False, 2), "tool.txt": (True, 0), "wide.txt": (False, 1)}
    assert "+one" in read_diff(ours, ours.base_sha, tip, 10_000)
