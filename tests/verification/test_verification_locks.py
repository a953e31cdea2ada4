"""Locks between processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from blueflame.system.flock import LockHeld, hold_lock

TAKER = """
import os, sys
from pathlib import Path
from blueflame.system.flock import LockHeld, hold_lock
lock, inside, ledger = map(Path, sys.argv[1:])
left = 20
while left:
    try:
        with hold_lock(lock, str(os.getpid())):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # two at once would meet here
            with ledger.open("a") as file:
                file.write("taken\\n")
            inside.unlink()
            left -= 1
    except LockHeld:
        continue
"""


@pytest.mark.verification(45)
def test_v45_of_ten_processes_exactly_one_holds_a_lock_at_a_time(tmp_path: Path) -> None:
    lock, inside, ledger = (tmp_path / name for name in ("lock", "inside", "ledger"))
    with hold_lock(lock, "us"):  # so that all of them are there before the first one gets it
        command = [sys.executable, "-c", TAKER, str(lock), str(inside), str(ledger)]
        takers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(10)]
        before = lock.stat().st_ino
    said = [taker.communicate()[1] for taker in takers]
    assert [taker.returncode for taker in takers] == [0] * 10, said
    assert ledger.read_text().count("taken") == 200
    assert lock.stat().st_ino == before, "a lock that is unlinked could be held twice"
    with hold_lock(lock, "us"), pytest.raises(LockHeld), hold_lock(lock, "us again"):
        pass
