"""Damaged objects of the person's repository, by the real damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git import damage
from blueflame.git.command import run_git, try_git
from blueflame.git.damage import CHECKED_ANCESTORS, find_damage, find_reported_loss
from blueflame.git.repository import Repository, open_repository

Git = Callable[..., str]


def opened(path: Path) -> Repository:
    return open_repository(path, base_branch="main")


def locate_object(repo: Path, sha: str) -> Path:
    return repo / ".git" / "objects" / sha[:2] / sha[2:]


@pytest.mark.parametrize("name", ["main", "main~1", "main^{tree}", "main:src", "main:README.md"])
def test_a_damaged_object_is_named_with_the_fix(repo: Path, git: Git, name: str) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    ours, sha = opened(repo), git(repo, "rev-parse", name).strip()
    place = locate_object(repo, sha)
    content = place.read_bytes()
    assert find_damage(ours, (ours.base_sha,)) == ""
    place.unlink()
    for damaged in (None, b"", content[: len(content) // 2], content[:-8]):
        if damaged is not None:
            place.write_bytes(damaged)
        words = find_damage(ours, (ours.base_sha,))
        assert sha in words
        assert words.startswith(f"the repository {repo} is damaged: ")
        assert words.endswith("run 'git fsck', and fetch or restore the objects that it names")
    place.write_bytes(content)
    assert find_damage(ours, (ours.base_sha,)) == ""


def test_a_ref_that_is_empty_is_named(repo: Path) -> None:
    ours = opened(repo)
    (repo / ".git" / "refs" / "heads" / "main").write_text("")
    assert "refs/heads/main" in find_damage(ours, (ours.base_sha,))


def test_damage_of_packs_and_of_a_borrowed_store_is_found(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "repack", "-adq")
    ours = opened(repo)
    (pack,) = (repo / ".git" / "objects" / "pack").glob("*.pack")
    index = pack.with_suffix(".idx")
    for part in (pack, index):
        content = part.read_bytes()
        for damaged in (b"", content[: len(content) // 2]):
            part.chmod(0o644)
            part.write_bytes(damaged)
            assert "is damaged" in find_damage(ours, (ours.base_sha,))
        part.write_bytes(content)
    assert find_damage(ours, (ours.base_sha,)) == ""
    git(tmp_path, "clone", "-q", "--shared", str(repo), "borrower")
    borrower = opened(tmp_path / "borrower")
    repo.rename(tmp_path / "moved")
    assert "is damaged" in find_damage(borrower, (borrower.base_sha,))


def test_what_git_can_do_without_is_no_damage(repo: Path, git: Git) -> None:
    git(repo, "repack", "-adq", "--write-midx")
    git(repo, "commit-graph", "write")
    ours = opened(repo)
    for place in (ours.objects / "info" / "commit-graph", ours.objects / "pack" / "multi-pack-index"):
        place.chmod(0o644)
        place.write_bytes(b"")
    assert find_damage(ours, (ours.base_sha,)) == ""


@pytest.fixture
def old_file(repo: Path, git: Git) -> Path:
    """A file that only a commit before the newest hundred has."""
    (repo / "old.txt").write_text("old\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "old")
    sha = git(repo, "rev-parse", "main:old.txt").strip()
    git(repo, "rm", "-q", "old.txt")
    git(repo, "commit", "-q", "-m", "removed")
    begun = "commit refs/heads/main\ncommitter Ada <ada@example.org> 0 +0000\ndata 0\n"
    later = f"{begun}from refs/heads/main^0\n\n" + f"{begun}\n" * CHECKED_ANCESTORS
    run_git(repo, "-c", "fastimport.unpackLimit=1000", "fast-import", "--quiet", stdin=later)
    return locate_object(repo, sha)


def test_damage_in_old_history_is_found(repo: Path, old_file: Path) -> None:
    ours, content = opened(repo), old_file.read_bytes()
    assert find_damage(ours, (ours.base_sha,)) == ""
    old_file.unlink()
    for damaged in (None, b"", content[:-8]):
        if damaged is not None:
            old_file.write_bytes(damaged)
        assert old_file.parent.name + old_file.name in find_damage(ours, (ours.base_sha,))


@pytest.fixture
def packed(repo: Path, git: Git, old_file: Path) -> Repository:
    """All but the old file is in a pack: as after a pack that was lost, or a prune at the wrong time."""
    sha = old_file.parent.name + old_file.name
    others = "".join(
        f"{line[:40]}\n" for line in git(repo, "rev-list", "--objects", "--all").splitlines() if line[:40] != sha
    )
    run_git(repo, "pack-objects", "-q", ".git/objects/pack/pack", stdin=others)
    run_git(repo, "prune-packed", "-q")
    return opened(repo)


def test_an_object_that_a_packed_commit_needs_is_missed(packed: Repository, old_file: Path) -> None:
    assert find_damage(packed, (packed.base_sha,)) == ""
    old_file.unlink()
    assert old_file.parent.name + old_file.name in find_damage(packed, (packed.base_sha,))


def test_in_a_large_repository_it_is_missed_among_the_newest_commits_or_when_an_agents_git_lacked_it(
    packed: Repository, old_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = old_file.parent.name + old_file.name
    monkeypatch.setattr(damage, "MAX_LISTED_BYTES", 0)
    assert find_reported_loss(packed, f"fatal: unable to read {'d' * 40}") == "", "an agent's invention"
    old_file.unlink()
    assert find_damage(packed, (packed.base_sha,)) == ""
    assert find_reported_loss(packed, "fatal: bad object HEAD~200") == ""
    lacked = try_git(packed.root, "log", "-p", "--all", "--grep=removed")
    assert sha in find_reported_loss(packed, lacked.err)
    monkeypatch.setattr(damage, "CHECKED_ANCESTORS", CHECKED_ANCESTORS + 10)
    assert sha in find_damage(packed, (packed.base_sha,))


def test_one_wrong_byte_of_a_pack_is_found_in_what_no_newer_commit_has(repo: Path, git: Git, old_file: Path) -> None:
    sha = old_file.parent.name + old_file.name
    git(repo, "repack", "-adfq")
    ours = opened(repo)
    (pack,) = (repo / ".git" / "objects" / "pack").glob("*.pack")
    rows = (line.split() for line in git(repo, "verify-pack", "-v", str(pack)).splitlines())
    (offset,) = (int(row[4]) for row in rows if row[0] == sha)
    content = bytearray(pack.read_bytes())
    content[offset + 5] ^= 255
    pack.chmod(0o644)
    pack.write_bytes(content)
    assert f"{pack} does not end with its checksum; run 'git fsck'" in find_damage(ours, (ours.base_sha,))


def test_of_a_very_large_repository_only_the_newest_commits_are_read(
    repo: Path, old_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = opened(repo)
    old_file.unlink()
    monkeypatch.setattr(damage, "MAX_WHOLE_BYTES", 1)
    assert find_damage(ours, (ours.base_sha,)) == ""
    locate_object(repo, ours.base_sha).unlink()
    assert "is damaged" in find_damage(ours, (ours.base_sha,))
