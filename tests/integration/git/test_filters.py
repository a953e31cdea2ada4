"""Clean and smudge filters: found by attribute and by configuration; one without the other does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.git.filters import find_filtered_paths, find_used_filters, list_filter_drivers
from blueflame.git.repository import Repository, open_repository
from support.repositories import run_git


@pytest.fixture
def attributed(repo: Path) -> Path:
    (repo / "данные").mkdir()
    (repo / "данные" / ".gitattributes").write_text("*.bin filter=lfs -text\n")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-qm", "attributes")
    return repo


def read(root: Path) -> Repository:
    return open_repository(root, base_branch="main")


def test_a_filter_that_is_named_and_configured_is_found(attributed: Path) -> None:
    run_git(attributed, "config", "filter.lfs.process", "git-lfs filter-process")
    repo = read(attributed)
    assert find_used_filters(repo, repo.base_sha) == ("lfs",)
    run_git(attributed, "checkout", "-q", "--orphan", "another")
    run_git(attributed, "rm", "-rqf", ".")
    found = find_filtered_paths(repo, repo.base_sha, ["данные/a.bin", "a.bin", "данные/a.txt"], ["lfs"])
    assert found == {"данные/a.bin": "lfs"}, "whatever is checked out"


def test_a_filter_that_only_the_repositorys_own_attributes_name_is_found(repo: Path) -> None:
    """As git-annex writes it."""
    run_git(repo, "config", "filter.annex.process", "git-annex filter-process")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=annex\n.* !filter\n")
    found = read(repo)
    assert find_used_filters(found, found.base_sha) == ("annex",)


def test_a_filter_that_is_not_configured_is_none(attributed: Path) -> None:
    repo = read(attributed)
    assert find_used_filters(repo, repo.base_sha) == ()
    assert find_filtered_paths(repo, repo.base_sha, ["данные/a.bin"], ["other"]) == {}


def test_a_filter_that_is_configured_later_is_found(attributed: Path) -> None:
    repo = read(attributed)
    assert list_filter_drivers(repo.root) == ()
    run_git(attributed, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    assert list_filter_drivers(repo.root) == ("lfs",)
