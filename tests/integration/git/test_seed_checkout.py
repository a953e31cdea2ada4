from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.seed_checkout import SeedResult, seed_checkout
from blueflame.model.errors import WorldError

Git = Callable[..., str]


@pytest.fixture
def checkout(repo: Path, tmp_path: Path, git: Git) -> Path:
    place = tmp_path / "worktrees" / "worker-1 ж"
    git(repo, "clone", "-q", "--shared", str(repo), str(place))
    return place


def ignore(repo: Path, git: Git, *patterns: str) -> None:
    (repo / ".gitignore").write_text("\n".join([*patterns, ""]))
    git(repo, "add", ".gitignore")
    git(repo, "commit", "-q", "-m", "chore(task-000): ignore")


def put(place: Path, path: str, text: str = "x\n", mode: int = 0o644) -> Path:
    file = place / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def include(repo: Path, *patterns: str) -> None:
    (repo / ".worktreeinclude").write_text("\n".join([*patterns, ""]))


def test_without_an_include_file_nothing_is_copied(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, ".env")
    put(repo, ".env")
    assert seed_checkout(repo, checkout) == SeedResult()
    assert not (checkout / ".env").exists()


def test_a_file_comes_along_only_when_it_matches_and_is_ignored(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, ".env*", "/кэш и прочее/")
    put(repo, ".env", "SECRET=1\n", 0o600)
    put(repo, "apps/веб app/.env.local", "A=b\n")
    put(repo, "кэш и прочее/глубже/a [1]*.bin")
    put(repo, "unfinished.env.txt")  # matches nothing
    put(repo, "notes.md")  # matches below, yet is not ignored
    include(repo, ".env*", "кэш и прочее/", "notes.md", "src/app.py")
    seeded = seed_checkout(repo, checkout)
    assert seeded.copied == (".env", "apps/веб app/.env.local", "кэш и прочее/глубже/a [1]*.bin")
    assert seeded.skipped == ()
    assert (checkout / ".env").read_text() == "SECRET=1\n"
    assert not (checkout / "notes.md").exists()


def test_modes_and_times_are_kept_and_special_bits_are_not(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, "bin/")
    tool = put(repo, "bin/tool", "#!/bin/sh\n", 0o4755)
    os.utime(tool, ns=(10**18, 10**18))
    include(repo, "bin/")
    seed_checkout(repo, checkout)
    found = (checkout / "bin/tool").stat()
    assert (found.st_mode & 0o7777, found.st_mtime_ns) == (0o755, 10**18)


def test_what_is_there_is_never_overwritten(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, ".env", "link")
    put(repo, ".env", "ours\n")
    put(repo, "link", "ours\n")
    put(checkout, ".env", "theirs\n")
    (checkout / "link").symlink_to("nowhere")
    include(repo, ".env", "link")
    seeded = seed_checkout(repo, checkout)
    assert seeded == SeedResult((), ((".env", "is already there"), ("link", "is already there")))
    assert (checkout / ".env").read_text() == "theirs\n"
    assert not (checkout / "nowhere").exists()


def test_a_link_in_the_checkout_does_not_lead_a_copy_outside(
    repo: Path, checkout: Path, git: Git, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (checkout / "conf").symlink_to(outside, target_is_directory=True)
    ignore(repo, git, "conf/")
    put(repo, "conf/.env")
    include(repo, "conf/")
    seeded = seed_checkout(repo, checkout)
    assert seeded.copied == ()
    assert seeded.skipped == (("conf/.env", "a file is where its folder should be in the checkout"),)
    assert list(outside.iterdir()) == []


def test_links_are_copied_when_they_point_inside_and_skipped_otherwise(
    repo: Path, checkout: Path, git: Git, tmp_path: Path
) -> None:
    ignore(repo, git, "links/")
    (repo / "links").mkdir()
    secret = put(tmp_path, "secret")
    (repo / "links/inside").symlink_to("../README.md")
    (repo / "links/absolute").symlink_to(repo / "src")
    (repo / "links/by-name").symlink_to(f"../../{repo.name}/README.md")
    (repo / "links/outside").symlink_to(secret)
    (repo / "links/climbs").symlink_to("../../secret")
    (repo / "links/git").symlink_to("../.git/config")
    (repo / "links/loop").symlink_to("loop")
    include(repo, "links/")
    seeded = seed_checkout(repo, checkout)
    assert seeded.copied == ("links/absolute", "links/by-name", "links/inside", "links/loop")
    assert [path for path, _ in seeded.skipped] == ["links/climbs", "links/git", "links/outside"]
    assert all("leads out of the repository" in why for _, why in seeded.skipped)
    for name, place in {"absolute": "src", "by-name": "README.md", "inside": "README.md"}.items():
        assert (checkout / "links" / name).resolve() == checkout.resolve() / place


def test_copied_files_are_ignored_in_the_checkout_by_whichever_rule(repo: Path, checkout: Path, git: Git) -> None:
    exclude = repo / ".git/info/exclude"
    exclude.write_text(".env\n/vendor/\nodd*\n")  # does not travel with a clone
    put(repo, ".env")
    put(repo, "deep/.env")
    put(repo, "vendor/a/b.js")
    put(repo, "odd [x]*? \\name")
    put(repo, "odd\nline")
    include(repo, "*")
    seeded = seed_checkout(repo, checkout)
    assert set(seeded.copied) == {".env", "deep/.env", "odd\nline", "odd [x]*? \\name", "vendor/a/b.js"}
    assert git(checkout, "status", "--porcelain") == ""
    put(checkout, "deep/new.py")
    put(checkout, "other/.env")
    untracked = git(checkout, "status", "--porcelain", "-uall").splitlines()
    assert untracked == ["?? deep/new.py", "?? other/.env"]
    assert "/vendor/\n" in (checkout / ".git/info/exclude").read_text()


@pytest.mark.parametrize("place", [".git", ".git/info", ".git/info/exclude"])
def test_a_link_in_the_place_of_git_s_own_files_is_not_written_through(
    repo: Path, checkout: Path, git: Git, tmp_path: Path, place: str
) -> None:
    ignore(repo, git, ".env")
    put(repo, ".env")
    include(repo, ".env")
    outside = tmp_path / "outside"
    (checkout / place).rename(outside)
    before = sorted((path, path.read_bytes()) for path in [outside, *outside.rglob("*")] if path.is_file())
    (checkout / place).symlink_to(outside)
    with pytest.raises(WorldError, match="exclude"):
        seed_checkout(repo, checkout)
    assert before == sorted((path, path.read_bytes()) for path in [outside, *outside.rglob("*")] if path.is_file())
    assert not (checkout / ".env").exists()


def test_a_second_time_changes_nothing(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, ".env", "cache/")
    put(repo, ".env")
    put(repo, "cache/a")
    include(repo, ".env", "cache/")
    seed_checkout(repo, checkout)
    exclude = (checkout / ".git/info/exclude").read_text()
    assert seed_checkout(repo, checkout).copied == ()
    assert (checkout / ".git/info/exclude").read_text().split() == exclude.split()


def test_our_own_state_and_other_checkouts_stay_where_they_are(repo: Path, git: Git) -> None:
    (repo / ".git/info/exclude").write_text(".blueflame/\n.trees/\nnested/\n")
    put(repo, ".blueflame/journal.db")
    put(repo, ".trees/dead-agent/half-removed.txt")
    checkout = repo / ".trees" / "worker-2"
    git(repo, "clone", "-q", "--shared", str(repo), str(checkout))
    git(repo, "init", "-q", "nested")
    put(repo, "nested/file")
    include(repo, "*")
    assert seed_checkout(repo, checkout) == SeedResult((), (("nested/", "is a separate repository"),))


def test_a_negated_pattern_leaves_a_file_behind(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, "*.local")
    put(repo, "a.local")
    put(repo, "big.local")
    include(repo, "# what agents need", "*.local", "!big.local")
    assert seed_checkout(repo, checkout).copied == ("a.local",)


def test_strange_files_are_skipped_with_a_note(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, "*.local")
    os.mkfifo(repo / "pipe.local")
    put(repo, "fine.local")
    include(repo, "*.local")
    seeded = seed_checkout(repo, checkout)  # git does not list pipes at all; were it to, they would be skipped
    assert seeded.copied == ("fine.local",)
    assert not (checkout / "pipe.local").exists()


def test_a_linked_worktree_cannot_be_made_ready(repo: Path, tmp_path: Path, git: Git) -> None:
    ignore(repo, git, ".env")
    put(repo, ".env")
    include(repo, ".env")
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    with pytest.raises(WorldError, match="only a separate clone"):
        seed_checkout(repo, tmp_path / "linked")


def test_an_export_without_git_can_be_made_ready(repo: Path, tmp_path: Path, git: Git) -> None:
    ignore(repo, git, ".env")
    put(repo, ".env")
    include(repo, ".env")
    (tmp_path / "export").mkdir()
    assert seed_checkout(repo, tmp_path / "export").copied == (".env",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_skipped(repo: Path, checkout: Path, git: Git) -> None:
    ignore(repo, git, ".env")
    put(repo, ".env", mode=0o000)
    include(repo, ".env")
    assert seed_checkout(repo, checkout).skipped == ((".env", "cannot be read: Permission denied"),)


def test_a_full_disk_is_an_error_and_leaves_no_half_file(
    repo: Path, checkout: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore(repo, git, ".env")
    put(repo, ".env")
    include(repo, ".env")

    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", no_space)
    monkeypatch.setattr("fcntl.ioctl", no_space)
    with pytest.raises(WorldError, match=r"cannot copy .*\.env.*No space left"):
        seed_checkout(repo, checkout)
    assert not (checkout / ".env").exists()


def test_the_environment_of_a_surrounding_git_hook_does_not_mislead_it(
    repo: Path, checkout: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore(repo, git, ".env")
    put(repo, ".env")
    include(repo, ".env")
    subprocess.run(["git", "init", "-q", str(tmp_path / "other")], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert seed_checkout(repo, checkout).copied == (".env",)
