"""A companion is a real process with a group of its own, and none of it outlives its end."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from blueflame.model.errors import ProcessFailed
from blueflame.system.process import start_background
from support.command_line import until


def test_its_output_is_in_its_log_and_a_file_of_ours_reaches_it(tmp_path: Path) -> None:
    with tempfile.TemporaryFile() as file:
        code = f"import os; os.write({file.fileno()}, b'here'); print('сказано')"
        companion = start_background(
            [sys.executable, "-X", "utf8", "-c", code], log=tmp_path / "a log", handles=(file.fileno(),)
        )
        assert companion.wait(60)
        assert os.pread(file.fileno(), 10, 0) == b"here"
    assert not companion.is_running
    assert (tmp_path / "a log").read_text("utf-8") == "сказано\n"


def test_its_end_is_the_end_of_its_group(tmp_path: Path) -> None:
    companion = start_background(["/bin/sh", "-c", "sleep 60 & echo $!; wait"], log=tmp_path / "log")
    child = int(until(lambda: (tmp_path / "log").read_text().strip()))
    assert not companion.wait(0)
    companion.kill_group()
    companion.kill_group()
    assert not companion.is_running
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_it_can_be_asked_and_killed() -> None:
    asked, killed = (start_background(["/bin/sleep", "60"]) for _ in range(2))
    asked.terminate()
    assert asked.wait(60)
    killed.kill()
    assert not killed.is_running


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ProcessFailed, match="/no/such"):
        start_background(["/no/such"])
