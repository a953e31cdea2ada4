"""Damage in the checkout of an agent, found without git."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.checkouts import make_checkout
from blueflame.git.repository import open_repository
from blueflame.git.untrusted import damage
from blueflame.git.untrusted.damage import find_checkout_damage

Git = Callable[..., str]


@pytest.fixture
def base(repo: Path, git: Git) -> str:
    return git(repo, "rev-parse", "main").strip()


@pytest.fixture
def checkout(repo: Path, tmp_path: Path, base: str, git: Git) -> Path:
    """With a commit in a pack, and a later one."""
    path = tmp_path / "checkout"
    make_checkout(open_repository(repo, base_branch="main"), path, base=base, branch="work")
    for n in (1, 2):
        (path / f"{n}.txt").write_text(f"{n}\n" * 50)
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", f"work {n}")
        if n == 1:
            git(path, "repack", "-adlq")
    return path


def list_own_files(checkout: Path, git: Git) -> list[Path]:
    inside, sha = checkout / ".git", git(checkout, "rev-parse", "HEAD:2.txt").strip()
    loose = inside / "objects" / sha[:2] / sha[2:]
    return [inside / "HEAD", inside / "index", inside / "refs/heads/work", loose, *inside.glob("objects/pack/*.[pi]*")]


def test_every_damaged_file_is_named(checkout: Path, base: str, git: Git) -> None:
    assert find_checkout_damage(checkout, base) == ""
    places = list_own_files(checkout, git)
    assert len(places) == 6
    for place in places:
        content = place.read_bytes()
        place.chmod(0o644)
        parts = (b"", content[: len(content) // 2], content[:9] + b"?" + content[10:])
        for damaged in parts[:1] if place.name in ("HEAD", "work") else parts:
            place.write_bytes(damaged)
            words = find_checkout_damage(checkout, base)
            assert words.startswith(f"the checkout {checkout} is damaged: {place} is not as git wrote it; ")
        place.write_bytes(content)
    assert find_checkout_damage(checkout, base) == ""


def test_what_git_writes_otherwise_is_no_damage(checkout: Path, base: str) -> None:
    index = checkout / ".git" / "index"
    index.write_bytes(index.read_bytes()[:-20] + bytes(20))
    for name in ("refs/heads/other.lock", "objects/pack/tmp_pack_1", "objects/tmp_obj_1"):
        (checkout / ".git" / name).write_bytes(b"")
    assert find_checkout_damage(checkout, base) == ""


@pytest.mark.parametrize("name", [".git", ".git/objects", ".git/objects/aa/" + "b" * 38, ".git/index"])
def test_no_link_is_followed_and_no_pipe_is_waited_for(checkout: Path, base: str, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "index").write_bytes(b"")
    place = checkout / name
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(tmp_path / "aside")
    place.symlink_to(elsewhere if place.suffix == ".git" or place.name == "objects" else elsewhere / "index")
    assert find_checkout_damage(checkout, base) == ""
    place.unlink()
    os.mkfifo(place)
    assert find_checkout_damage(checkout, base) == ""


def test_an_object_that_is_tiny_and_endless_is_not_read_to_its_end(
    checkout: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = checkout / ".git" / "objects" / "00" / ("0" * 38)
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(bytes(3_000_000)))
    assert str(place) in find_checkout_damage(checkout, base)
    monkeypatch.setattr(damage, "MAX_READ_BYTES", 2_000_000)
    assert find_checkout_damage(checkout, base) == ""
