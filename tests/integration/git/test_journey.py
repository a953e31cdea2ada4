"""A result's whole way, from checkout to landing, under configurations that people really have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.checkouts import make_checkout, remove_checkout
from blueflame.git.landing import Advanced, advance_branch
from blueflame.git.merge import create_commit, find_tree
from blueflame.git.repository import (
    Repository,
    exclude_from_status,
    find_dirty_paths,
    open_repository,
    read_branch_head,
)
from blueflame.git.results import CollectedResult, collect_result, list_changes, read_diff

Git = Callable[..., str]

LIVELY = """
[user]
	useConfigOnly = true
[core]
	abbrev = 4
	quotePath = true
	autocrlf = input
	untrackedCache = true
	hooksPath = /nonexistent
	splitIndex = true
[init]
	defaultBranch = trunk
	templateDir = /nonexistent
[safe]
	bareRepository = explicit
[protocol]
	allow = never
[commit]
	gpgSign = true
[gpg]
	program = /bin/false
[tag]
	gpgSign = true
[fetch]
	prune = true
	recurseSubmodules = true
[submodule]
	recurse = true
[branch]
	autoSetupMerge = always
[status]
	short = true
	branch = true
	showUntrackedFiles = no
[log]
	decorate = full
	showSignature = true
	abbrevCommit = true
[format]
	pretty = oneline
[diff]
	external = /bin/false
	mnemonicPrefix = true
	noprefix = true
	renames = copies
	algorithm = histogram
	ignoreSubmodules = all
	colorMoved = zebra
[color]
	ui = always
[merge]
	conflictStyle = zdiff3
	ff = only
[pull]
	rebase = true
[feature]
	manyFiles = true
	experimental = true
[index]
	version = 4
[advice]
	detachedHead = true
"""


def journey(ours: Repository, place: Path, git: Git) -> str:
    """Check out, work, collect, compare, merge, run something on it, land; the commit that landed."""
    branch, ref = "blueflame/ses-1/task-001/1", "refs/blueflame/attempts/ses-1/task-001/1"
    old = read_branch_head(ours, "main")
    make_checkout(ours, place, base=old, branch=branch)
    (place / "новый файл.txt").write_text("text\n")
    git(place, "mv", "src/app.py", "src/main.py")
    git(place, "add", "-A")
    git(place, "-c", "commit.gpgSign=false", "commit", "-q", "-m", "feat(task-001): work")
    outcome = collect_result(ours, place, branch=branch, base=old, ref=ref)
    assert isinstance(outcome, CollectedResult)
    assert [entry.subject for entry in outcome.commits] == ["feat(task-001): work"]
    assert [change.paths for change in list_changes(ours, old, outcome.tip)] == [
        ("src/app.py", "src/main.py"),
        ("новый файл.txt",),
    ]
    assert "diff --git a/src/app.py b/src/main.py" in read_diff(ours, old, outcome.tip, 10_000)
    remove_checkout(place)
    built = create_commit(ours, find_tree(ours, outcome.tip), (old, outcome.tip), "feat(task-001): land")
    make_checkout(ours, place, base=built)
    assert (place / "новый файл.txt").read_text() == "text\n"
    remove_checkout(place)
    assert isinstance(advance_branch(ours, "main", old=old, new=built), Advanced)
    assert read_branch_head(ours, "main") == built
    return built


def test_a_lively_configuration_breaks_nothing(
    repo: Path, tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text(LIVELY)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    ours = open_repository(repo / "src", base_branch="main")
    exclude_from_status(ours, ["/.trees/"])
    landed = journey(ours, repo / ".trees" / "worker", git)
    assert find_dirty_paths(ours) == ()
    assert (repo / "src" / "main.py").exists()
    assert git(repo, "rev-parse", "HEAD").strip() == landed


def test_the_way_from_a_shallow_clone(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "мелкий клон")
    ours = open_repository(tmp_path / "мелкий клон", base_branch="main")
    journey(ours, tmp_path / "tree", git)
    git(ours.root, "fsck", "--no-progress", "--connectivity-only")


def test_the_way_with_a_detached_head(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "checkout", "-q", "--detach")
    journey(open_repository(repo, base_branch="main"), tmp_path / "tree", git)
    assert (repo / "src" / "app.py").exists()


def test_the_way_in_a_linked_worktree_of_a_bare_repository(repo: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "their tree"), "main")
    journey(open_repository(tmp_path / "their tree", base_branch="main"), tmp_path / "tree", git)
    assert git(tmp_path / "their tree", "status", "--porcelain") == ""


def test_the_way_with_a_submodule(repo: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "-q", str(repo), "part")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "part"), "sub")
    git(repo, "commit", "-q", "-m", "add a submodule")
    journey(open_repository(repo, base_branch="main"), tmp_path / "tree", git)
    assert git(repo, "status", "--porcelain") == ""
    assert (repo / "sub" / "README.md").exists()
