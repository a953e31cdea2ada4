"""A child that answers through pipes: whole answers or an error, never a wait without end."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from blueflame.model.errors import ProcessFailed
from blueflame.system.piped_process import PipedProcess
from support.command_line import until


def start(tmp_path: Path, script: str) -> PipedProcess:
    return PipedProcess(("/bin/sh", "-c", script), cwd=tmp_path, env=dict(os.environ))


def test_one_request_after_the_other_is_answered(tmp_path: Path) -> None:
    child = start(tmp_path, "exec cat")
    for text in (b"one", "два".encode(), b""):
        child.send(text + b"\nrest", timeout=60)
        assert child.read_line() == text
        assert child.read_exactly(4) == b"rest"
    assert child.close() == (0, "")


def test_neither_side_waits_for_the_other_when_both_have_megabytes_to_say(tmp_path: Path) -> None:
    child = start(tmp_path, "exec cat")
    request = os.urandom(8).hex().encode() * 300_000
    child.send(request, timeout=60)
    assert child.read_exactly(len(request)) == request
    child.send(request + b"|end|after", timeout=60)
    assert child.read_until(b"|end|") == request
    assert child.read_exactly(5) == b"after"
    child.close()


def test_an_answer_that_does_not_come_in_time_is_an_error_that_names_the_program(tmp_path: Path) -> None:
    child = start(tmp_path, "exec sleep 600")
    child.send(b"?\n", timeout=0.05)
    with pytest.raises(ProcessFailed, match=r"exec sleep 600.* not finished after 0\.05 seconds"):
        child.read_line()
    child.kill()
    until(lambda: not psutil.pid_exists(child.pid))


def test_the_end_of_the_child_is_reported_with_what_it_wrote(tmp_path: Path) -> None:
    child = start(tmp_path, 'read -r word; echo "fatal: $word" >&2; exit 3')
    child.send(b"why\n", timeout=60)
    with pytest.raises(EOFError):
        child.read_line()
    assert child.close() == (3, "fatal: why\n")


def test_an_answer_longer_than_allowed_is_not_collected(tmp_path: Path) -> None:
    child = start(tmp_path, "exec yes")
    child.send(b"", timeout=60)
    with pytest.raises(OverflowError):
        child.read_until(b"never", 1_000_000)
    child.kill()


def test_a_child_that_ignores_the_end_of_its_input_is_killed(tmp_path: Path) -> None:
    child = start(tmp_path, "exec sleep 600")
    assert child.close()[0] < 0
