from __future__ import annotations

import os
from pathlib import Path

import pytest

from blueflame.git.checkouts import make_checkout
from blueflame.git.repository import Repository, open_repository
from blueflame.git.untrusted import live_changes as touched
from blueflame.git.untrusted.live_changes import IgnoreCache, LiveChange, LiveCheckout, read_beneath
from blueflame.model.errors import WorldError
from support.sessions import git


@pytest.fixture
def ours(repo: Path) -> Repository:
    for name, text in {
        "src/a.txt": "a\n",
        "src/b c.txt": "b\n",
        "имя.txt": "i\n",
        ".gitignore": "*.pyc\nbuild/\n",
    }.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(text)
    (repo / "src" / "link").symlink_to("a.txt")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "begin")
    return open_repository(repo, base_branch="main")


@pytest.fixture
def checkout(ours: Repository, tmp_path: Path) -> LiveCheckout:
    path = tmp_path / "trees" / "worker-1"
    path.parent.mkdir()
    make_checkout(ours, path, base=ours.base_sha, branch="work")
    return LiveCheckout(ours, path, ours.base_sha, IgnoreCache(ours))


def test_a_fresh_checkout_is_as_its_base(checkout: LiveCheckout) -> None:
    assert checkout.find_changes() == {}


def test_changes_additions_and_deletions_are_seen_committed_or_not(checkout: LiveCheckout) -> None:
    (checkout.path / "src" / "a.txt").write_text("A\n")
    (checkout.path / "имя.txt").unlink()
    (checkout.path / "new" / "deep").mkdir(parents=True)
    (checkout.path / "new" / "deep" / "n.txt").write_text("n\n")
    seen = checkout.find_changes()
    assert set(seen) == {"src/a.txt", "имя.txt", "new/deep/n.txt"}
    blob = git(checkout.path, "hash-object", "src/a.txt").strip()
    assert seen["src/a.txt"].now == blob
    assert (seen["имя.txt"].now, seen["new/deep/n.txt"].base) == ("", "")
    git(checkout.path, "add", "-A")
    git(checkout.path, "commit", "-q", "-m", "work")
    assert checkout.find_changes() == seen
    assert checkout.read_text("src/a.txt") == "A\n"


def test_what_was_put_back_or_only_touched_is_no_change(checkout: LiveCheckout) -> None:
    file = checkout.path / "src" / "a.txt"
    file.write_text("A\n")
    assert checkout.find_changes()
    file.write_text("a\n")
    os.utime(checkout.path / "src" / "b c.txt")
    assert checkout.find_changes() == {}


def test_a_change_that_keeps_size_and_time_is_seen(checkout: LiveCheckout) -> None:
    file = checkout.path / "src" / "a.txt"
    before = file.stat()
    file.write_text("X\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert set(checkout.find_changes()) == {"src/a.txt"}


def test_ignored_files_and_folders_are_not_looked_at(checkout: LiveCheckout) -> None:
    (checkout.path / "build").mkdir()
    (checkout.path / "build" / "out.txt").write_text("o\n")
    (checkout.path / "src" / "x.pyc").write_text("x\n")
    assert checkout.find_changes() == {}


def test_links_pipes_and_large_files_are_never_read(
    checkout: LiveCheckout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (checkout.path / "src" / "a.txt").unlink()
    (checkout.path / "src" / "a.txt").symlink_to(tmp_path / "secret")
    os.mkfifo(checkout.path / "pipe")
    monkeypatch.setattr(touched, "MAX_FILE_BYTES", 10)
    (checkout.path / "large").write_text("x" * 11)
    seen = checkout.find_changes()
    assert set(seen) == {"src/a.txt", "pipe", "large"}
    assert seen["large"] == LiveChange("", "size 11")
    assert [checkout.read_text(name) for name in seen] == [None, None, None]


def test_a_folder_that_became_a_link_leads_nowhere(checkout: LiveCheckout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("not ours\n")
    (checkout.path / "src").rename(checkout.path / "moved")
    (checkout.path / "src").symlink_to(tmp_path / "elsewhere")
    assert read_beneath(checkout.path, "src/a.txt") is None
    assert checkout.find_changes()["src/a.txt"].now == ""


def test_a_checkout_with_too_many_names_is_refused(checkout: LiveCheckout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched, "MAX_ENTRIES", 2)
    with pytest.raises(WorldError, match="more than 2 names"):
        checkout.find_changes()


def test_a_trap_in_the_agents_git_folder_is_not_sprung(checkout: LiveCheckout, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    with (checkout.path / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = touch {trap}\n\tpager = touch {trap}\n")
    (checkout.path / "src" / "a.txt").write_text("A\n")
    assert set(checkout.find_changes()) == {"src/a.txt"}
    assert not trap.exists()
