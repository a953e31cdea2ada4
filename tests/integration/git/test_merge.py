"""Merges in the object store."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.history import list_past_commits
from blueflame.git.merge import (
    CleanMerge,
    CombinedCommit,
    MergeConflict,
    MergedTree,
    combine_commits,
    compute_merge,
    create_commit,
    find_tree,
    join_landed,
    merge_heads,
)
from blueflame.git.repository import Repository, is_ancestor, open_repository, read_branch_head
from blueflame.git.trees import list_tree_files
from blueflame.model.errors import GitFailed

Git = Callable[..., str]
Branch = Callable[..., str]


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


@pytest.fixture
def branch(ours: Repository, git: Git) -> Branch:
    """Makes a commit with some files on top of another, and leaves the person's checkout on main."""

    def make(on: str = ours.base_sha, **files: str) -> str:
        git(ours.root, "checkout", "-q", "--detach", on)
        for name, text in files.items():
            (ours.root / name).write_text(text)
        git(ours.root, "add", "-A")
        git(ours.root, "commit", "-q", "--allow-empty", "-m", f"feat: {sorted(files)}")
        sha = git(ours.root, "rev-parse", "HEAD").strip()
        git(ours.root, "checkout", "-q", "main")
        return sha

    return make


def test_a_clean_rehearsal_gives_the_combined_tree(ours: Repository, branch: Branch, git: Git) -> None:
    outcome = compute_merge(ours, branch(a="1"), branch(b="2"))
    assert isinstance(outcome, CleanMerge)
    assert git(ours.root, "ls-tree", "--name-only", outcome.tree).split() == ["README.md", "a", "b", "src"]


def test_a_conflict_names_its_paths_and_says_what_happened(ours: Repository, branch: Branch) -> None:
    left = branch(**{"мой файл\n1": "left\n", "two": "left\n", "fine": "same\n"})
    right = branch(**{"мой файл\n1": "right\n", "two": "right\n", "fine": "same\n"})
    outcome = compute_merge(ours, left, right)
    assert isinstance(outcome, MergeConflict)
    assert outcome.paths == ("two", "мой файл\n1")
    assert len(outcome.messages) == 2
    assert any("CONFLICT (add/add): Merge conflict in two" in message for message in outcome.messages)
    assert (outcome.ours, outcome.theirs) == (left, right)


def test_a_file_changed_here_and_deleted_there_is_a_conflict(ours: Repository, branch: Branch, git: Git) -> None:
    changed = branch(**{"README.md": "changed\n"})
    git(ours.root, "checkout", "-q", "--detach")
    git(ours.root, "rm", "-q", "README.md")
    git(ours.root, "commit", "-q", "-m", "drop it")
    deleted = git(ours.root, "rev-parse", "HEAD").strip()
    git(ours.root, "checkout", "-q", "main")
    outcome = compute_merge(ours, changed, deleted)
    assert isinstance(outcome, MergeConflict)
    assert outcome.paths == ("README.md",)
    assert "modify/delete" in outcome.messages[0]


def test_an_unknown_commit_is_an_error_not_a_conflict(ours: Repository) -> None:
    with pytest.raises(GitFailed):
        compute_merge(ours, ours.base_sha, "1" * 40)
    with pytest.raises(GitFailed):
        combine_commits(ours, "1" * 40, (ours.base_sha,), "m")


def test_unrelated_histories_are_an_error(ours: Repository, git: Git) -> None:
    tree = git(ours.root, "rev-parse", "HEAD^{tree}").strip()
    stranger = create_commit(ours, tree, (), "no parents")
    with pytest.raises(GitFailed, match="share no history"):
        compute_merge(ours, ours.base_sha, stranger)


def test_a_merge_has_both_parents_and_its_message_and_touches_nothing(
    ours: Repository, branch: Branch, git: Git
) -> None:
    left, right = branch(a="1"), branch(b="2")
    outcome = combine_commits(ours, left, (right,), "-feat(task-001): слить\n\nтело " + "x" * 200_000)
    assert isinstance(outcome, CombinedCommit)
    assert git(ours.root, "log", "-1", "--format=%P%n%s%n%an", outcome.sha).splitlines() == [
        f"{left} {right}",
        "-feat(task-001): слить",
        "Ада Лавлейс",
    ]
    assert read_branch_head(ours, "main") == ours.base_sha
    assert git(ours.root, "status", "--porcelain") == ""


def test_a_person_without_a_name_can_merge(
    ours: Repository, branch: Branch, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = branch(a="1"), branch(b="2")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name)
    outcome = combine_commits(ours, left, (right,), "m")
    assert isinstance(outcome, CombinedCommit)
    assert git(ours.root, "log", "-1", "--format=%an <%ae>", outcome.sha) == "Blue Flame <blueflame@localhost>\n"


def test_what_is_contained_already_needs_no_commit(ours: Repository, branch: Branch) -> None:
    newer = branch(a="1")
    assert combine_commits(ours, newer, (ours.base_sha,), "m") == CombinedCommit(newer)
    assert combine_commits(ours, newer, (newer,), "m") == CombinedCommit(newer)


def test_a_conflicting_merge_makes_no_commit(ours: Repository, branch: Branch) -> None:
    outcome = combine_commits(ours, branch(a="1\n"), (branch(a="2\n"),), "m")
    assert isinstance(outcome, MergeConflict)
    assert outcome.paths == ("a",)


def test_a_foundation_of_nothing_is_the_base(ours: Repository) -> None:
    assert combine_commits(ours, ours.base_sha, (), "m") == CombinedCommit(ours.base_sha)
    assert combine_commits(ours, ours.base_sha, (ours.base_sha,), "m") == CombinedCommit(ours.base_sha)


def test_a_chain_of_dependencies_needs_no_commit(ours: Repository, branch: Branch) -> None:
    first = branch(a="1")
    second = branch(first, b="2")
    assert combine_commits(ours, ours.base_sha, (first, second), "m") == CombinedCommit(second)
    assert combine_commits(ours, ours.base_sha, (second, first, second), "m") == CombinedCommit(second)


def test_several_foundations_become_one_that_has_them_all(ours: Repository, branch: Branch) -> None:
    heads = [branch(a="1"), branch(b="2"), branch(c="3")]
    outcome = combine_commits(ours, ours.base_sha, heads, "foundation")
    assert isinstance(outcome, CombinedCommit)
    assert list_tree_files(ours, outcome.sha) == ("README.md", "a", "b", "c", "src/app.py")
    assert all(is_ancestor(ours, head, outcome.sha) for head in heads)


def test_a_base_that_moved_on_is_part_of_the_foundation(ours: Repository, branch: Branch) -> None:
    moved, head = branch(base="new"), branch(a="1")
    outcome = combine_commits(ours, moved, (head,), "foundation")
    assert isinstance(outcome, CombinedCommit)
    assert list_tree_files(ours, outcome.sha) == ("README.md", "a", "base", "src/app.py")


def test_foundations_that_do_not_fit_are_a_conflict(ours: Repository, branch: Branch) -> None:
    left, right = branch(a="1\n"), branch(a="2\n")
    outcome = combine_commits(ours, ours.base_sha, (left, right), "foundation")
    assert isinstance(outcome, MergeConflict)
    assert outcome.paths == ("a",)
    assert (outcome.ours, outcome.theirs) == (left, right)


@pytest.mark.parametrize("date", ["", " 123456789012345678901 +0000"], ids=["none", "too large"])
def test_a_commit_whose_date_git_does_not_accept_is_merged(
    ours: Repository, branch: Branch, git: Git, date: str
) -> None:
    landed = branch(a="1")
    whole = git(ours.root, "cat-file", "commit", ours.base_sha)
    committer = next(line for line in whole.splitlines() if line.startswith("committer "))
    done = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        cwd=ours.root,
        input=whole.replace(committer, f"committer bob <b@example.org>{date}"),
        capture_output=True,
        text=True,
        check=True,
    )
    base = done.stdout.strip()

    joined = join_landed(ours, base, [landed])

    assert joined == join_landed(ours, base, [landed])
    assert is_ancestor(ours, landed, joined)
    git(ours.root, "update-ref", "refs/heads/main", base)
    assert [commit.sha for commit in list_past_commits(ours.root)] == [base]


def test_a_resolution_holds_while_what_changes_beside_it_merges_with_it(
    ours: Repository, branch: Branch, git: Git
) -> None:
    left, right = branch(same="left\n"), branch(same="right\n", theirs="right\n")
    made = find_tree(ours, branch(left, same="both\n", theirs="right\n"))
    resolved = {(find_tree(ours, left), right): made}
    moved = branch(left, new="landed meanwhile\n")
    rewritten = branch(left, same="other\n")

    found = merge_heads(ours, (left, right), "as it was", resolved)
    carried = merge_heads(ours, (moved, right), "the base has moved", resolved)
    conflict = merge_heads(ours, (rewritten, right), "the same file has changed", resolved)

    assert found == MergedTree(made, (left, right))
    assert isinstance(carried, MergedTree)
    for name, content in {"same": "both", "theirs": "right", "new": "landed meanwhile"}.items():
        assert git(ours.root, "show", f"{carried.tree}:{name}") == f"{content}\n"
    assert isinstance(conflict, MergeConflict)
    assert merge_heads(ours, (moved, right), "the same again", resolved) == carried
