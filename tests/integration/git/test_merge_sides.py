"""What each side of a merge did to the files, and how the combined tree has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.checks.merge_losses import find_losses
from blueflame.git.merge import CleanMerge, CombinedCommit, combine_commits, compute_merge, create_commit
from blueflame.git.merge_sides import MergeSide, read_changed_files
from blueflame.git.repository import Repository, open_repository

Git = Callable[..., str]
LINES = "".join(f"line {n}\n" for n in range(1, 31))


@pytest.fixture
def ours(repo: Path, git: Git) -> Repository:
    (repo / "a.txt").write_text(LINES)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "begin")
    return open_repository(repo, base_branch="main")


@pytest.fixture
def make(ours: Repository, git: Git) -> Callable[..., str]:
    """A commit on top of another, made by a function that changes the files."""

    def made(change: Callable[[Path], object], on: str = ours.base_sha) -> str:
        git(ours.root, "checkout", "-q", "--detach", on)
        change(ours.root)
        git(ours.root, "add", "-A")
        git(ours.root, "commit", "-q", "-m", "feat: it")
        sha = git(ours.root, "rev-parse", "HEAD").strip()
        git(ours.root, "checkout", "-q", "main")
        return sha

    return made


def put(name: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text)


def reported(repo: Repository, sides: list[MergeSide], combined: str, base: str | None = None) -> list[str]:
    return [str(loss) for loss in find_losses(read_changed_files(repo, base or repo.base_sha, sides, combined))]


def merged(repo: Repository, *shas: str) -> str:
    outcome = combine_commits(repo, repo.base_sha, shas, "all of them")
    assert isinstance(outcome, CombinedCommit)
    return outcome.sha


def test_a_clean_merge_of_both_ends_of_a_file_loses_nothing(ours: Repository, make: Callable[..., str]) -> None:
    top = make(put("a.txt", "top\n" + LINES))
    end = make(put("a.txt", LINES + "end\n"))
    sides = [MergeSide("task-001", ours.base_sha, top), MergeSide("task-002", ours.base_sha, end)]
    assert reported(ours, sides, merged(ours, top, end)) == []


def test_a_tree_that_takes_one_side_only_is_found_out(ours: Repository, make: Callable[..., str]) -> None:
    one = make(put("a.txt", LINES.replace("line 5\n", "five\n")))
    other = make(put("a.txt", LINES.replace("line 5\n", "fünf\n")))
    sides = [MergeSide("task-001", ours.base_sha, one), MergeSide("task-002", ours.base_sha, other)]
    assert reported(ours, sides, one) == ["1 line of task-002 in a.txt is not in the result: fünf"]


def test_what_a_later_task_rewrote_is_reported_with_its_name(ours: Repository, make: Callable[..., str]) -> None:
    first = make(put("a.txt", LINES + "end\n"))
    second = make(put("a.txt", LINES + "the end\n"), first)
    sides = [MergeSide("task-001", ours.base_sha, first), MergeSide("task-002", first, second)]
    assert reported(ours, sides, second) == [
        "1 line of task-001 in a.txt is not in the result (changed by task-002): end"
    ]


def test_a_file_that_was_renamed_by_the_other_side_is_followed(
    ours: Repository, make: Callable[..., str], git: Git
) -> None:
    one = make(put("a.txt", LINES + "end\n"))
    other = make(lambda root: git(root, "mv", "a.txt", "b.txt"))
    sides = [MergeSide("task-001", ours.base_sha, one), MergeSide("task-002", ours.base_sha, other)]
    whole = merged(ours, one, other)
    assert reported(ours, sides, whole) == []
    assert "end" in git(ours.root, "show", f"{whole}:b.txt")
    assert [line for line in reported(ours, sides, other) if "end" in line] == [
        "1 line of task-001 in b.txt is not in the result: end"
    ]


def test_what_the_base_changed_meanwhile_is_the_bases(ours: Repository, make: Callable[..., str]) -> None:
    tip = make(put("new.txt", "one\ntwo\n"))
    landed = make(put("new.txt", "one\nzwei\n"), tip)
    assert reported(ours, [MergeSide("task-001", ours.base_sha, tip)], landed, landed) == [
        "1 line of task-001 in new.txt is not in the result (changed by the base): two"
    ]
    newer = make(put("c.txt", "c\n"))
    outcome = compute_merge(ours, newer, tip)
    assert isinstance(outcome, CleanMerge)
    whole = create_commit(ours, outcome.tree, (newer, tip), "both")
    assert reported(ours, [MergeSide("task-001", ours.base_sha, tip)], whole, newer) == []


def test_a_deleted_file_that_is_there_again_and_a_binary_one_that_is_another_are_reported(
    ours: Repository, make: Callable[..., str]
) -> None:
    gone = make(lambda root: (root / "a.txt").unlink())
    (loss,) = reported(ours, [MergeSide("task-001", ours.base_sha, gone)], ours.base_sha)
    assert loss.startswith("30 lines that task-001 took out of a.txt are in the result again: line 1")
    image = make(lambda root: (root / "i.png").write_bytes(b"\0one"))
    other = make(lambda root: (root / "i.png").write_bytes(b"\0two"))
    assert reported(ours, [MergeSide("task-001", ours.base_sha, image)], other) == [
        "the content of task-001 in i.png is not in the result"
    ]
