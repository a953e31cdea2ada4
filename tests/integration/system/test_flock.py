"""Locks between real processes."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from blueflame.model.errors import Refused, WorldError
from blueflame.system.flock import LockHeld, format_lock_note, hold_lock, parse_lock_note, read_lock_holder
from blueflame.system.process_identity import read_identity

HOLDER = """
import sys, time
from pathlib import Path
from blueflame.system.flock import format_lock_note, hold_lock
with hold_lock(Path(sys.argv[1]), format_lock_note("session ses-1")):
    print("held", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "замки" / "orchestrator lock"


def test_a_lock_that_was_never_made_is_free(path: Path) -> None:
    assert read_lock_holder(path) is None
    assert not path.exists()


@pytest.mark.verification(7)
def test_a_held_lock_refuses_a_second_taker_and_names_the_first(path: Path) -> None:
    with hold_lock(path, "first one"):
        assert read_lock_holder(path) == "first one"
        with pytest.raises(LockHeld) as caught, hold_lock(path, "second"):
            pass
        assert caught.value.holder == "first one"
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, Refused)
        assert read_lock_holder(path) == "first one"
    assert read_lock_holder(path) is None


@pytest.mark.verification(45)
def test_a_disk_without_locks_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(WorldError, match="No locks available; this disk has no locks"), hold_lock(path, "us"):
        pass


def test_the_file_stays_when_the_lock_goes(path: Path) -> None:
    with hold_lock(path, "me"):
        before = path.stat().st_ino
    with hold_lock(path, "me again"):
        assert path.stat().st_ino == before


@pytest.mark.verification(8)
def test_the_card_tells_pid_start_time_and_note() -> None:
    me = read_identity(os.getpid())
    assert me is not None
    pattern = rf"{os.getpid()} {me.start_time:.0f} \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ session Ада"
    assert re.fullmatch(pattern, format_lock_note("session Ада"))


@pytest.mark.verification(8)
def test_a_lock_dies_with_its_holder_even_by_kill(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LockHeld) as caught, hold_lock(path, "us"):
            pass
        assert caught.value.holder.startswith(f"{child.pid} ")
        assert caught.value.holder.endswith(" session ses-1")
        child.send_signal(signal.SIGKILL)
    assert read_lock_holder(path) is None  # though its name is still written there
    with hold_lock(path, "us"):
        assert read_lock_holder(path) == "us"


def test_a_child_does_not_inherit_the_lock(path: Path) -> None:
    with hold_lock(path, "us"):
        child = subprocess.Popen(["sleep", "1000"], close_fds=False)
    try:
        assert read_lock_holder(path) is None
    finally:
        child.kill()
        child.wait()


@pytest.mark.verification(45)
def test_of_ten_takers_exactly_one_holds_at_a_time(path: Path) -> None:
    inside = 0
    most = 0
    taken = [0] * 10
    guard = threading.Lock()

    def take(me: int) -> None:
        nonlocal inside, most
        for _ in range(1000):
            try:
                with hold_lock(path, str(me)):
                    with guard:
                        inside += 1
                        most = max(most, inside)
                        taken[me] += 1
                    with guard:
                        inside -= 1
                return
            except LockHeld:
                continue

    threads = [threading.Thread(target=take, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert taken == [1] * 10


def test_asking_who_holds_it_never_makes_a_taker_fail(path: Path) -> None:
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            read_lock_holder(path)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        for _ in range(300):
            with hold_lock(path, "taker"):
                pass
    finally:
        stop.set()
        asker.join()


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorldError, match="cannot open the lock"), hold_lock(tmp_path / "file" / "lock", "x"):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="a file that refuses to shrink is made by a seal")
def test_a_disk_that_fails_meanwhile_does_not_hide_how_the_block_ended() -> None:
    handle = os.memfd_create("lock", os.MFD_ALLOW_SEALING)
    try:
        with pytest.raises(ZeroDivisionError), hold_lock(Path(f"/proc/self/fd/{handle}"), "us"):
            fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            _ = 1 / 0
    finally:
        os.close(handle)


def test_a_card_can_be_read_back() -> None:
    before = int(time.time())
    found = parse_lock_note(format_lock_note("orchestrator of мой repo"))
    assert found is not None
    assert (found.pid, found.note) == (os.getpid(), "orchestrator of мой repo")
    assert before <= found.since <= time.time()


@pytest.mark.parametrize("text", ["", "4711", "x y z", "12 34 not-a-time note", "12 34 2026-13-45T00:00:00Z n"])
def test_what_is_no_card_is_not_read_as_one(text: str) -> None:
    assert parse_lock_note(text) is None
