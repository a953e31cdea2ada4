"""Whole files or none."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.errors import WorldError
from blueflame.system.files import (
    find_old_drafts,
    find_write_error,
    read_text,
    remove_drafts,
    rotate_log,
    write_atomically,
)
from blueflame.system.process import run
from support.disks import fill, immutable, mounted, read_only


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "глубоко в" / "tasks list.yaml"


@settings(deadline=None)
@given(st.text() | st.binary())
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, content: str | bytes) -> None:
    folder = tmp_path_factory.mktemp("files")
    if isinstance(content, str):
        content = content.encode("utf-8", "ignore").decode()
    write_atomically(folder / "f", content)
    assert (folder / "f").read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert [entry.name for entry in folder.iterdir()] == ["f"]


def test_folders_are_made_and_the_old_content_replaced(path: Path) -> None:
    write_atomically(path, "one")
    write_atomically(path, "two")
    assert path.read_text() == "two"


def test_the_mode_of_the_old_file_is_kept(path: Path) -> None:
    write_atomically(path, "one")
    path.chmod(0o600)
    write_atomically(path, "two")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_new_file_has_the_mode_the_umask_gives(path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(path, "one")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.verification(5)
def test_file_and_folder_reach_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")  # noqa: PTH112 - a magic link
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, "text")
    assert synced == ["file", "folder"]


def test_what_need_not_survive_a_power_cut_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _handle: pytest.fail("synced"))
    write_atomically(tmp_path / "view", "seen\n", durable=False)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("view", "seen\n")]


@pytest.mark.verification(5)
@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace")])
def test_a_full_disk_leaves_the_old_file_and_no_draft(
    path: Path, owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomically(path, "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(owner, name, full)
    with pytest.raises(WorldError) as caught:
        write_atomically(path, "new")
    assert str(path) in str(caught.value)
    assert "free some disk space" in str(caught.value)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_real_limit_on_file_size_leaves_the_old_file(path: Path) -> None:
    write_atomically(path, "old")
    script = (
        "import resource, signal, sys; from pathlib import Path; from blueflame.system.files import write_atomically;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "write_atomically(Path(sys.argv[1]), 'x' * 100_000)"
    )
    done = run(sys.executable, "-c", script, str(path), cwd=path.parent)
    assert "WorldError: cannot write" in done.err
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorldError, match="file is where a folder must be"):
        write_atomically(tmp_path / "file" / "below", "text")


def test_a_folder_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(WorldError, match="folder"):
        write_atomically(tmp_path / "folder", "text")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_only_the_drafts_of_a_file_are_swept_away(path: Path) -> None:
    write_atomically(path, "whole")
    others = [path.with_name(name) for name in (f".{path.name}.draft", f".{path.name}.deadbeef.draft", ".mine.draft")]
    for other in others:
        other.write_text("of another writer")
    path.with_name(f".{path.name}.0123456789abcdef.draft").write_text("half")
    remove_drafts(path)
    assert sorted(path.parent.iterdir()) == sorted([path, *others])


def test_drafts_are_of_killed_writers_when_they_are_old(path: Path) -> None:
    names = (f".{path.name}.0123456789abcdef.draft", ".journal.db.4711.draft", ".localtime.4711-99.draft")
    old = sorted(path.with_name(name) for name in names)
    for draft in (*old, path.with_name(".mine.draft"), path):
        write_atomically(draft, "half")
        os.utime(draft, (1000.0, 1000.0))
    write_atomically(path.with_name(f".{path.name}.fedcba9876543210.draft"), "of a writer at work")

    assert find_old_drafts(path.parent.parent, time.time(), at_work=True) == old
    assert find_old_drafts(path.parent.parent, 4000.0, at_work=True) == []
    assert find_old_drafts(path.parent.parent, 1070.0, at_work=False) == old


def test_a_missing_file_is_called_by_its_name(path: Path) -> None:
    with pytest.raises(WorldError, match=r"the decisions file .*tasks list.yaml does not exist"):
        read_text(path, "the decisions file")


def test_a_byte_order_mark_is_no_part_of_the_text(path: Path) -> None:
    write_atomically(path, b"\xef\xbb\xbfkey: 1\n")
    assert read_text(path, "it") == "key: 1\n"


def test_a_file_that_is_no_text_says_where(path: Path) -> None:
    write_atomically(path, b"abc\xff")
    with pytest.raises(WorldError, match=r"not UTF-8 text \(byte 3\)"):
        read_text(path, "it")


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="cannot read it"):
        read_text(tmp_path, "it")


def test_a_log_that_has_grown_large_is_kept_once(tmp_path: Path) -> None:
    log, before = tmp_path / "activity.log", tmp_path / "activity.log.1"
    rotate_log(log)
    for text in ("first", "second"):
        log.write_text(text)
        rotate_log(log, most=10)
        assert log.exists()
        rotate_log(log, most=3)
        assert not log.exists()
        assert before.read_text() == text


def test_only_what_the_machine_closes_is_reported_as_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_write_error(tmp_path) == ""
    assert find_write_error(tmp_path / "gone") == ""
    with mounted(tmp_path / "disk", 2):
        fill(tmp_path / "disk" / "ballast")
        assert "No space left on device; free some disk space" in find_write_error(tmp_path / "disk")
    (tmp_path / "shut").mkdir()
    with read_only(tmp_path / "shut"):
        assert "Read-only file system" in find_write_error(tmp_path / "shut")
    with immutable(tmp_path / "shut"):
        assert "Operation not permitted" in find_write_error(tmp_path / "shut")
    for number, is_machine in ((errno.EDQUOT, True), (errno.EIO, True), (errno.EACCES, False)):

        def refuse(_file: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", refuse)
        assert bool(find_write_error(tmp_path)) is is_machine
    assert sorted(tmp_path.iterdir()) == [tmp_path / "disk", tmp_path / "shut"]
