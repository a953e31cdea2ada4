"""Spare checkouts: the next one has the files of its commit and nothing that ran in the one before has written."""

from __future__ import annotations

import mmap
import os
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blueflame.git import checkouts
from blueflame.git.checkouts import (
    count_spares,
    get_index_path,
    keep_files,
    make_checkout,
    prepare_spare,
    remove_checkout,
    sweep_spares,
)
from blueflame.git.repository import Repository, open_repository
from blueflame.git.spares.store import SPARES, find_spares_folder

Git = Callable[..., str]
FILES = {
    "README.md": "# sample\n",
    "src/a.py": "first = 1\n",
    "src/b.py": "other = 2\n",
    "src/deep/c.py": "third\n",
    "lib/a.py": "four\n",
    "имя с пробелом.txt": "five\n",
}


@pytest.fixture
def ours(repo: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(checkouts, "MIN_FILES", 3)
    _commit(repo, git, FILES, ".gitignore")
    (repo / "link").symlink_to("src/a.py")
    (repo / "src" / "run.sh").write_text("#!/bin/sh\n")
    (repo / "src" / "run.sh").chmod(0o755)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "more")
    return open_repository(repo, base_branch="main")


@pytest.fixture
def place(repo: Path) -> Path:
    return repo / ".trees" / "worker-1a2b3c4d"


def _commit(repo: Path, git: Git, files: dict[str, str], *ignored: str) -> str:
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    for name in ignored:
        (repo / name).write_text("*.o\nbuild/\n")
    git(repo, "add", "-A", "--", *files, *ignored)
    git(repo, "commit", "-q", "-m", "files")
    return git(repo, "rev-parse", "HEAD").strip()


def _describe(top: Path) -> dict[str, tuple[int, object]]:
    """Every name below the checkout but its git folder, with its mode and content."""
    found: dict[str, tuple[int, object]] = {}
    for path in sorted(top.rglob("*")):
        name, mode = str(path.relative_to(top)), path.lstat().st_mode
        if not f"{name}/".startswith(".git/"):
            content = path.readlink() if path.is_symlink() else path.read_bytes() if stat.S_ISREG(mode) else None
            found[name] = mode, content
    return found


def _describe_fresh(ours: Repository, tmp_path: Path, base: str) -> dict[str, tuple[int, object]]:
    make_checkout(ours, tmp_path / "fresh" / "one", base=base)
    return _describe(tmp_path / "fresh" / "one")


def _use_again(ours: Repository, place: Path, base: str) -> Path:
    keep_files(ours, place, most=9)
    assert not place.exists()
    after = place.with_name("worker-99999999")
    make_checkout(ours, after, base=base, branch="work/two")
    return after


def test_the_next_checkout_writes_only_what_differs(ours: Repository, place: Path, git: Git) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch="work/one")
    inode = (place / "src/b.py").stat().st_ino
    newer = _commit(ours.root, git, {"src/a.py": "first = 100\n", "new/d.py": "d\n"})
    after = _use_again(ours, place, newer)
    assert (after / "src/b.py").stat().st_ino == inode
    assert (after / "src/a.py").read_text() == "first = 100\n"
    assert git(after, "status", "--porcelain") == ""
    assert git(after, "rev-parse", "HEAD").strip() == newer
    assert git(after, "symbolic-ref", "HEAD").strip() == "refs/heads/work/two"
    assert count_spares(ours, place.parent) == 0


def _keep_times(path: Path, change: Callable[[], object]) -> None:
    before = path.stat()
    change()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def _replace_by_link(path: Path, target: Path) -> None:
    path.rename(path.with_name(f"{path.name}.old"))
    path.symlink_to(target)


def _write_through_a_map(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[:5] = b"final"


def _put_another_in_its_place(path: Path) -> None:
    path.with_name("x").write_text("first = 2\n")
    path.with_name("x").rename(path)


def _fill_folder(path: Path, name: str) -> None:
    path.mkdir()
    (path / name).write_text("x")


def _hide_from_the_index(at: Path) -> None:
    (at / "src/a.py").write_text("evil")
    subprocess.run(["git", "update-index", "--assume-unchanged", "src/a.py"], cwd=at, check=True)


def _remove_the_index(at: Path) -> None:
    (at / ".git/index").unlink()
    (at / "src/a.py").write_text("evil")


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def _put_file_in_place_of_folder(path: Path) -> None:
    path.rename(path.with_name("old"))
    path.write_text("x")


ATTACKS: dict[str, Callable[[Path, Path], object]] = {
    "same size and time": lambda at, _: _keep_times(
        at / "src/a.py", lambda: (at / "src/a.py").write_text("fiend = 6\n")
    ),
    "a write through a map": lambda at, _: _keep_times(at / "src/a.py", lambda: _write_through_a_map(at / "src/a.py")),
    "another file in its place": lambda at, _: _put_another_in_its_place(at / "src/a.py"),
    "two files swapped": lambda at, _: _swap(at / "src/a.py", at / "src/b.py"),
    "two folders swapped": lambda at, _: _swap(at / "src", at / "lib"),
    "a file deleted": lambda at, _: (at / "src/a.py").unlink(),
    "a mode": lambda at, _: (at / "src/a.py").chmod(0o777),
    "an extended attribute of a file": lambda at, _: os.setxattr(at / "src/a.py", "user.note", b"x"),
    "a new file": lambda at, _: (at / "src/new.py").write_text("x"),
    "an ignored file": lambda at, _: (at / "src/a.o").write_text("x"),
    "an ignored folder": lambda at, _: _fill_folder(at / "build", "x.py"),
    "an empty folder": lambda at, _: (at / "src/deep/empty").mkdir(),
    "a repository within": lambda at, _: subprocess.run(["git", "init", "-q", at / "sub"], check=True),
    "a hook": lambda at, _: _fill_folder(at / ".git/hooks", "post-checkout"),
    "a setting": lambda at, _: (at / ".git/config").write_text("[core]\n\tfsmonitor = x\n"),
    "an index that says nothing changed": lambda at, _: _hide_from_the_index(at),
    "no index": lambda at, _: _remove_the_index(at),
    "a link to a file outside": lambda at, out: _replace_by_link(at / "src/a.py", out / "kept.txt"),
    "a link to a folder outside": lambda at, out: _replace_by_link(at / "src", out),
    "another target of a link": lambda at, _: _replace(at / "link", lambda path: path.symlink_to("/etc/passwd")),
    "a second name of a file": lambda at, _: (at / "twin.py").hardlink_to(at / "src/a.py"),
    "a pipe": lambda at, _: _replace(at / "src/a.py", os.mkfifo),
    "a folder in place of a file": lambda at, _: _replace(at / "src/a.py", Path.mkdir),
    "a file in place of a folder": lambda at, _: _put_file_in_place_of_folder(at / "lib"),
    "a name in other bytes": lambda at, _: (at / os.fsdecode(b"\xff\xfe")).write_text("x"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_was_written_in_a_checkout_is_in_the_next(
    ours: Repository, place: Path, attack: str, git: Git, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("mine")
    make_checkout(ours, place, base=ours.base_sha, branch="work/one")
    ATTACKS[attack](place, outside)
    keep_files(ours, place, most=9)
    (index,) = find_spares_folder(ours.root, place.parent).glob("*.index")
    untouched = _describe_fresh(ours, tmp_path / "before", ours.base_sha)
    assert _describe(index.with_suffix("")).items() <= untouched.items()  # already before git compares the rest
    newer = _commit(ours.root, git, {"src/deep/c.py": "changed\n"})
    after = place.with_name("worker-99999999")
    make_checkout(ours, after, base=newer, branch="work/two")
    assert _describe(after) == _describe_fresh(ours, tmp_path, newer)
    assert git(after, "status", "--porcelain", "--ignored") == ""
    fresh = tmp_path / "fresh" / "one"
    assert (after / ".git/config").read_text() == (fresh / ".git/config").read_text()
    assert {each.name for each in (after / ".git").iterdir()} == {each.name for each in (fresh / ".git").iterdir()}
    assert [each.name for each in outside.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize(
    "change",
    [
        lambda at: (at / "src").chmod(0o777),
        lambda at: (at / "src/deep").chmod(0o2755),
        lambda at: os.setxattr(at / "src", "user.note", b"x"),
        lambda at: at.chmod(0o700),
        lambda at: (at / "src").chmod(0),
    ],
)
def test_a_checkout_with_a_changed_folder_is_not_kept(
    ours: Repository, place: Path, change: Callable[[Path], object]
) -> None:
    make_checkout(ours, place, base=ours.base_sha)
    change(place)
    keep_files(ours, place, most=9)
    assert count_spares(ours, place.parent) == 0
    assert [each.name for each in place.parent.iterdir()] == []


def test_a_small_checkout_is_not_kept(ours: Repository, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "MIN_FILES", 2_000)
    make_checkout(ours, place, base=ours.base_sha)
    keep_files(ours, place, most=9)
    assert [each.name for each in place.parent.iterdir()] == []


def test_no_more_are_kept_than_asked_for(ours: Repository, place: Path) -> None:
    for name in ("a", "b", "c"):
        make_checkout(ours, place.with_name(name), base=ours.base_sha)
    for name in ("a", "b", "c"):
        keep_files(ours, place.with_name(name), most=2)
    assert count_spares(ours, place.parent) == 2
    assert [each.name for each in place.parent.iterdir()] == [SPARES]


def test_changed_attributes_change_files_that_the_commit_did_not(ours: Repository, place: Path, git: Git) -> None:
    make_checkout(ours, place, base=ours.base_sha)
    newer = _commit(ours.root, git, {".gitattributes": "*.py text eol=crlf\n"})
    after = _use_again(ours, place, newer)
    assert (after / "src/b.py").read_bytes() == b"other = 2\r\n"
    keep_files(ours, after, most=9)
    make_checkout(ours, place, base=ours.base_sha)
    assert (place / "src/b.py").read_bytes() == b"other = 2\n"


def test_other_settings_of_conversion_have_other_spares(
    ours: Repository, place: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_spare(ours, place.parent, ours.base_sha)
    find_spares_folder.__globals__["_find_conversion"].cache_clear()
    git(ours.root, "config", "core.eol", "crlf")
    assert count_spares(ours, place.parent) == 0
    sweep_spares(ours, place.parent)
    assert list((place.parent / SPARES).iterdir()) == []


def test_each_spare_is_taken_once(ours: Repository, place: Path, git: Git) -> None:
    for _ in range(2):
        prepare_spare(ours, place.parent, ours.base_sha)
    assert count_spares(ours, place.parent) == 2
    places = [place.with_name(f"worker-{n}") for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda at: make_checkout(ours, at, base=ours.base_sha, branch=at.name), places))
    for at in places:
        assert git(at, "status", "--porcelain") == ""
        assert (at / "src/a.py").read_text() == FILES["src/a.py"]
    assert count_spares(ours, place.parent) == 0


def test_a_spare_that_git_cannot_use_is_replaced_by_a_fresh_checkout(ours: Repository, place: Path, git: Git) -> None:
    prepare_spare(ours, place.parent, ours.base_sha)
    (index,) = find_spares_folder(ours.root, place.parent).glob("*.index")
    index.write_bytes(b"rubbish")
    make_checkout(ours, place, base=ours.base_sha, branch="work/one")
    assert git(place, "status", "--porcelain") == ""


def test_a_submodule_stays_an_empty_folder(ours: Repository, place: Path, git: Git, tmp_path: Path) -> None:
    git(ours.root, "update-index", "--add", "--cacheinfo", f"160000,{ours.base_sha},third/party")
    git(ours.root, "commit", "-q", "-m", "submodule")
    base = git(ours.root, "rev-parse", "HEAD").strip()
    make_checkout(ours, place, base=base)
    (place / "third/party/x").write_text("left here")
    after = _use_again(ours, place, base)
    assert _describe(after) == _describe_fresh(ours, tmp_path, base)


STEPS = ("write_record", "move_foreign_aside", "put_spare", "remove_checkout", "remove_tree")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_files_are_kept_leaves_nothing_half_done(
    ours: Repository, place: Path, step: str, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(checkouts, step)
    for done in (False, True):
        make_checkout(ours, place, base=ours.base_sha, branch="work/one")
        (place / "src/new.py").write_text("x")

        def crash(*args: object, _done: bool = done, **more: object) -> None:
            if _done:
                real(*args, **more)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(checkouts, step, crash)
            with pytest.raises(KeyboardInterrupt):
                keep_files(ours, place, most=9)
        sweep_spares(ours, place.parent)
        remove_checkout(place)
        make_checkout(ours, place, base=ours.base_sha, branch="work/two")
        assert git(place, "status", "--porcelain", "--ignored") == ""
        remove_checkout(place)
        assert {each.name for each in place.parent.iterdir()} <= {SPARES}
        assert not get_index_path(place).exists()


@pytest.mark.parametrize("left", ["files", "index"])
def test_half_of_a_spare_belongs_to_a_crash(ours: Repository, place: Path, left: str) -> None:
    prepare_spare(ours, place.parent, ours.base_sha)
    folder = find_spares_folder(ours.root, place.parent)
    (index,) = folder.glob("*.index")
    if left == "files":
        index.unlink()
    else:
        checkouts.remove_tree(index.with_suffix(""))
    sweep_spares(ours, place.parent)
    assert list(folder.iterdir()) == []


def test_a_repository_with_sha256_has_spares_too(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "MIN_FILES", 3)
    root = tmp_path / "long"
    root.mkdir()
    git(root, "init", "-q", "-b", "main", "--object-format=sha256")
    base = _commit(root, git, FILES)
    ours, place = open_repository(root, base_branch="main"), root / ".trees" / "one"
    make_checkout(ours, place, base=base)
    inode = (place / "src/b.py").stat().st_ino
    (place / "src/a.py").write_text("evil")
    after = _use_again(ours, place, base)
    assert (after / "src/a.py").read_text() == FILES["src/a.py"]
    assert (after / "src/b.py").stat().st_ino == inode
