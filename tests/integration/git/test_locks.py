"""Locks that a killed git left, and locks that are in use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.git.batch import find_objects
from blueflame.git.locks import MIN_AGE_SECONDS, remove_broken_refs, remove_stale_locks
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import delete_refs, list_refs, set_ref
from blueflame.model.errors import GitFailed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="which files are open is read from /proc")
OURS = "refs/blueflame/attempts/ses-1/task-001/1"


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


def leave_lock(path: Path, *, age: float = 60.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, times=(time.time() - age, time.time() - age))
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("packed-refs.lock", "packed-refs.new", "HEAD.lock", "index.lock", "refs/heads/main.lock", f"{OURS}.lock"),
        "refs/remotes/origin/blueflame/ses-1/cs-001.lock",
    ],
)
def test_a_lock_that_was_left_is_removed(ours: Repository, name: str) -> None:
    lock = leave_lock(ours.common_dir / name)
    assert remove_stale_locks(ours, alone=True) == (lock,)
    set_ref(ours, OURS, ours.base_sha)
    delete_refs(ours, [OURS])


def test_a_git_folder_that_cannot_be_read_has_no_locks(ours: Repository) -> None:
    """As on a disk that fails; what waits for it calls this before each try, and must not fail itself."""
    assert remove_stale_locks(replace(ours, common_dir=ours.common_dir / ("x" * 300)), alone=True) == ()


def test_folders_of_refs_that_git_removes_meanwhile_do_not_matter(ours: Repository) -> None:
    """As it does for each ref that is deleted or packed."""
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            (ours.common_dir / OURS).mkdir(parents=True, exist_ok=True)
            shutil.rmtree(ours.common_dir / "refs/blueflame/attempts")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(come_and_go)
        try:
            for _ in range(200):
                assert remove_stale_locks(ours) == ()
        finally:
            stop.set()
        running.result()


@pytest.mark.parametrize("rest", ["", "0123456789abcdef"])
def test_what_a_power_cut_left_of_a_ref_is_removed(ours: Repository, rest: str) -> None:
    other = OURS.replace("task-001", "task-002")
    for ref in (OURS, other):
        set_ref(ours, ref, ours.base_sha)
    (ours.common_dir / OURS).write_text(rest)
    with pytest.raises(GitFailed, match="reference broken"):
        set_ref(ours, OURS, ours.base_sha)
    remove_broken_refs(ours)
    assert list(list_refs(ours, "refs/blueflame/")) == [other]
    set_ref(ours, OURS, ours.base_sha)


def test_a_lock_that_a_process_has_open_is_left_alone(ours: Repository) -> None:
    lock = leave_lock(ours.common_dir / "packed-refs.lock")
    with lock.open():
        assert remove_stale_locks(ours, alone=True) == ()
    assert remove_stale_locks(ours, alone=True) == (lock,)


def test_a_young_lock_is_left_alone_while_others_work_and_waited_for_when_alone(ours: Repository) -> None:
    shared = leave_lock(ours.common_dir / "packed-refs.lock", age=0)
    own = leave_lock(ours.common_dir / f"{OURS}.lock", age=0)
    assert remove_stale_locks(ours) == ()
    assert remove_stale_locks(ours, alone=True) == (own, shared)
    assert MIN_AGE_SECONDS < 10


def test_the_index_is_left_to_a_person_who_writes_a_message(ours: Repository, tmp_path: Path) -> None:
    """`git commit -a` closes the lock of the index and waits for the editor."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    os.mkfifo(go)
    editor = f"touch '{ready}'; cat '{go}' >/dev/null; echo message >"
    (ours.root / "README.md").write_text("by hand\n")
    with subprocess.Popen(["git", "-c", f"core.editor={editor}", "commit", "-q", "-a"], cwd=ours.root) as person:
        while not ready.exists():
            assert person.poll() is None
            time.sleep(0.01)
        lock = ours.git_dir / "index.lock"
        os.utime(lock, times=(0, 0))
        assert remove_stale_locks(ours, alone=True) == ()
        assert lock.exists()
        go.write_text("\n")
        assert person.wait() == 0


def test_other_files_are_never_touched(ours: Repository) -> None:
    elsewhere = leave_lock(ours.common_dir / "refs" / "heads" / "other.lock")
    leave_lock(ours.common_dir / "refs" / "remotes" / "origin" / "main.lock")
    link = ours.common_dir / "HEAD.lock"
    link.symlink_to(elsewhere)
    assert remove_stale_locks(ours, alone=True) == ()
    assert elsewhere.exists()


def test_git_waits_for_a_ref_that_another_holds_for_a_moment(ours: Repository) -> None:
    lock = leave_lock(ours.common_dir / f"{OURS}.lock", age=0)
    with subprocess.Popen(["sh", "-c", 'sleep 0.5; rm "$1"', "sh", str(lock)]):
        set_ref(ours, OURS, ours.base_sha)


def test_a_git_of_ours_that_stays_does_not_keep_a_lock_of_the_index(ours: Repository) -> None:
    assert find_objects(ours, [ours.base_sha]) != [None]  # by a process that waits for the next question
    lock = leave_lock(ours.git_dir / "index.lock")
    assert remove_stale_locks(ours, alone=True) == (lock,)
