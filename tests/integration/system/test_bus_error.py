"""A mapped file that the kernel takes away ends the process with a message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CUT_OFF = """
import os, sqlite3, sys
from blueflame.system.bus_error import exit_on_bus_error

exit_on_bus_error("the journal cannot be used any more\\n", 4)
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("CREATE TABLE t (x)")
os.truncate(sys.argv[1] + "-shm", 0)
db.execute("INSERT INTO t VALUES (1)")
"""


@pytest.mark.parametrize("closed", [False, True], ids=["with a message", "without standard error"])
def test_a_file_of_a_journal_that_is_cut_off_ends_with_our_exit_code(tmp_path: Path, closed: bool) -> None:
    argv = [sys.executable, "-c", CUT_OFF, str(tmp_path / "journal.db")]
    if closed:
        argv = ["sh", "-c", 'exec "$@" 2>&-', "sh", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (4, "" if closed else "the journal cannot be used any more\n")
