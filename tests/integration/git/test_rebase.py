"""Commits put in a row, and landings taken back, in the object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.merge import CombinedCommit, MergeConflict, combine_commits, find_tree
from blueflame.git.rebase import CannotRebase, rebase_in_sequence, reset_paths, revert_range, reword_commits
from blueflame.git.repository import Repository, open_repository

Git = Callable[..., str]
Branch = Callable[..., str]


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


@pytest.fixture
def branch(ours: Repository, git: Git) -> Branch:
    def make(on: str = ours.base_sha, **files: str) -> str:
        git(ours.root, "checkout", "-q", "--detach", on)
        for name, text in files.items():
            (ours.root / name).write_text(text)
        git(ours.root, "add", "-A")
        author = ("-c", "user.name=Ада Лавлейс", "-c", "user.email=ada@example.org")
        git(ours.root, *author, "commit", "-q", "-m", f"feat: {', '.join(sorted(files))}\n\nWhy: because.")
        sha = git(ours.root, "rev-parse", "HEAD").strip()
        git(ours.root, "checkout", "-q", "main")
        return sha

    return make


def whole(repo: Repository, *shas: str) -> str:
    outcome = combine_commits(repo, repo.base_sha, shas, "all")
    assert isinstance(outcome, CombinedCommit)
    return outcome.sha


def test_commits_of_two_branches_stand_in_a_row_with_their_authors_dates_and_messages(
    ours: Repository, branch: Branch, git: Git
) -> None:
    one = branch(branch(a="1\n"), b="2\n")
    two = branch(c="3\n")
    tree = find_tree(ours, whole(ours, one, two))
    last = rebase_in_sequence(ours, ours.base_sha, [one, two], tree)
    assert isinstance(last, str)
    assert find_tree(ours, last) == tree
    said = git(ours.root, "log", "--reverse", "--format=%an: %s", f"{ours.base_sha}..{last}").splitlines()
    assert said == ["Ада Лавлейс: feat: a", "Ада Лавлейс: feat: b", "Ада Лавлейс: feat: c"]
    assert git(ours.root, "rev-parse", f"{last}^").strip() == one, "what stands right is taken as it is"
    form = "--format=%ad %cd%n%B"
    assert git(ours.root, "log", "-1", form, last) == git(ours.root, "log", "-1", form, two)
    assert rebase_in_sequence(ours, ours.base_sha, [one, two], tree) == last, "again is the same as once"


def test_work_built_on_other_work_is_replayed_once(ours: Repository, branch: Branch, git: Git) -> None:
    first = branch(a="1\n")
    second = branch(first, b="2\n")
    base = branch(z="z\n")
    tree = find_tree(ours, whole(ours, base, second))
    last = rebase_in_sequence(ours, base, [first, second], tree)
    assert isinstance(last, str)
    assert git(ours.root, "log", "--reverse", "--format=%s", f"{base}..{last}").splitlines() == ["feat: a", "feat: b"]


def test_a_commit_that_conflicts_alone_is_reported(ours: Repository, branch: Branch) -> None:
    detour = branch(branch(a="1\n"), a="2\n")
    base = branch(a="2\n")
    unfit = rebase_in_sequence(ours, base, [detour], find_tree(ours, base))
    assert isinstance(unfit, CannotRebase)
    assert "conflicts in a when it is replayed" in unfit.reason
    other = rebase_in_sequence(ours, ours.base_sha, [branch(q="1\n")], find_tree(ours, ours.base_sha))
    assert isinstance(other, CannotRebase)


def test_a_landing_is_reverted_with_what_came_later_left_alone(ours: Repository, branch: Branch, git: Git) -> None:
    landed = branch(a="1\n", b="2\n")
    later = branch(landed, c="3\n")
    back = revert_range(ours, later, before=ours.base_sha, after=landed, message="back")
    assert isinstance(back, str)
    assert git(ours.root, "diff", "--name-status", later, back).split() == ["D", "a", "D", "b"]
    assert git(ours.root, "rev-parse", f"{back}^@").split() == [later]
    clash = revert_range(ours, branch(landed, a="mine\n"), before=ours.base_sha, after=landed, message="back")
    assert isinstance(clash, MergeConflict)
    assert clash.paths == ("a",)


def test_commits_are_reworded_with_their_trees_authors_and_dates(ours: Repository, branch: Branch, git: Git) -> None:
    one = branch(a="1\n")
    two = branch(one, b="2\n")
    tip = branch(two, c="3\n")
    changed = reword_commits(ours, ours.base_sha, tip, lambda message: message.replace("feat: b", "Add b"))
    form = "--format=%T %an %ae %ad %cd"
    assert git(ours.root, "log", form, changed) == git(ours.root, "log", form, tip)
    said = git(ours.root, "log", "--reverse", "--format=%s", f"{ours.base_sha}..{changed}").splitlines()
    assert said == ["feat: a", "Add b", "feat: c"]
    assert git(ours.root, "rev-parse", f"{changed}~2").strip() == one, "what is worded right is taken as it is"
    assert git(ours.root, "log", "-1", "--format=%b", changed).strip() == "Why: because."
    assert reword_commits(ours, ours.base_sha, tip, lambda text: text.replace("feat: b", "Add b")) == changed
    assert reword_commits(ours, ours.base_sha, tip, lambda text: text) == tip


def test_a_merge_keeps_its_parents_when_its_commits_are_reworded(ours: Repository, branch: Branch, git: Git) -> None:
    one, two = branch(a="1\n"), branch(b="2\n")
    git(ours.root, "checkout", "-q", "--detach", one)
    git(ours.root, "merge", "-q", "--no-ff", "-m", "wip", two)
    tip = git(ours.root, "rev-parse", "HEAD").strip()
    changed = reword_commits(ours, ours.base_sha, tip, lambda text: text.replace("wip", "Join them"))
    assert git(ours.root, "log", "-1", "--format=%P", changed).split() == [one, two]
    assert find_tree(ours, changed) == find_tree(ours, tip)


def test_paths_are_reset_in_every_commit_and_a_commit_of_nothing_else_is_left_out(
    ours: Repository, branch: Branch, git: Git
) -> None:
    base = branch(lock="0\n")
    one = branch(base, a="1\n")
    two = branch(one, lock="1\n", дом="1\n")
    tip = branch(two, b="2\n", lock="2\n", new="2\n")
    changed = reset_paths(ours, base, tip, ["lock", "new", "дом"])
    assert git(ours.root, "log", "--reverse", "--format=%an %ad", f"{base}..{changed}") == "".join(
        git(ours.root, "log", "-1", "--format=%an %ad", sha) for sha in (one, tip)
    )
    assert git(ours.root, "log", "--name-status", "--format=", f"{base}..{changed}").split() == ["A", "b", "A", "a"]
    assert git(ours.root, "rev-parse", f"{changed}^").strip() == one, "what is right is taken as it is"
    assert reset_paths(ours, base, tip, ["lock", "new", "дом"]) == changed, "again is the same as once"
    assert reset_paths(ours, base, two, ["a", "lock", "дом"]) == base
    assert reset_paths(ours, base, tip, ["README.md"]) == tip


def test_a_removed_and_a_replaced_path_are_reset(ours: Repository, branch: Branch, git: Git) -> None:
    base = branch(gone="0\n", file="0\n")
    git(ours.root, "checkout", "-q", "--detach", base)
    (ours.root / "gone").unlink()
    (ours.root / "file").unlink()
    (ours.root / "file").mkdir()
    (ours.root / "file" / "inner").write_text("1\n")
    git(ours.root, "add", "-A")
    git(ours.root, "commit", "-q", "-m", "wip")
    tip = git(ours.root, "rev-parse", "HEAD").strip()
    assert reset_paths(ours, base, tip, ["gone", "file"]) == base


def test_a_merge_keeps_its_parents_when_paths_are_reset(ours: Repository, branch: Branch, git: Git) -> None:
    base = branch(lock="0\n")
    one, two = branch(base, a="1\n", lock="1\n"), branch(base, lock="1\n")
    three = branch(base, b="1\n")
    git(ours.root, "checkout", "-q", "--detach", one)
    git(ours.root, "merge", "-q", "--no-ff", "-m", "wip", three)
    tip = git(ours.root, "rev-parse", "HEAD").strip()
    changed = reset_paths(ours, base, tip, ["lock"])
    parents = git(ours.root, "log", "-1", "--format=%P", changed).split()
    assert parents == [reset_paths(ours, base, one, ["lock"]), three]
    assert reset_paths(ours, base, two, ["lock"]) == base
