"""What of a person's own folder is frozen or hidden for a command in a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from blueflame.model.errors import Refused
from blueflame.sandbox import person_checkout as guarding
from blueflame.sandbox.person_checkout import find_checkout, find_protected_files, read_checkout

BLOCKED = (".env*", "*.key", ".claude/**", "go.mod")


def test_ignored_is_hidden_and_the_rest_is_frozen(repo: Path) -> None:
    (repo / ".gitignore").write_text(".env*\nbuild/\n")
    for name in (".env", "sub/.env.local", "go.mod", "a/SERVER.KEY", ".claude/settings.json", "build/x.key", "plain"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("x")
    found = find_protected_files(repo, BLOCKED, of_git=True)
    assert found.frozen == (".claude", "a/SERVER.KEY", "go.mod")
    assert found.hidden == (".env", "build/x.key", "sub/.env.local")
    assert found.whole


def test_without_git_everything_blocked_is_frozen(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("x")
    assert find_protected_files(tmp_path, BLOCKED, of_git=False) == ((".env",), (), True)


def test_doors_are_hidden_and_links_are_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "x.key").symlink_to("/etc/passwd")
    assert find_protected_files(tmp_path, BLOCKED, of_git=False) == ((), ("pipe",), True)


def test_folders_of_packages_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / "test.key").write_text("x")
    assert find_protected_files(tmp_path, BLOCKED, of_git=False).frozen == ()


def test_a_tree_that_is_too_large_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "MAX_ENTRIES", 2)
    for n in range(5):
        (tmp_path / f"{n}.key").write_text("")
    assert not find_protected_files(tmp_path, BLOCKED, of_git=False).whole


def test_a_checkout_is_known_by_its_files(repo: Path, tmp_path: Path) -> None:
    assert find_checkout(repo / "src") == read_checkout(repo)
    assert read_checkout(repo).objects == repo / ".git" / "objects"
    assert read_checkout(tmp_path).git is None
    with pytest.raises(Refused, match="--worktree"):
        find_checkout(Path("/"))


@pytest.mark.parametrize("pointer", ["gitdir: {home}", "gitdir: /etc", "nonsense", "gitdir: ", "\0\xff"])
def test_a_pointer_to_what_is_no_git_folder_is_not_followed(tmp_path: Path, pointer: str) -> None:
    (tmp_path / ".git").write_text(pointer.format(home=Path.home()))
    assert read_checkout(tmp_path).common is None
