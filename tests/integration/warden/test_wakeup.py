"""The bell: signals and sockets, one thread, whatever numbers the files have. In processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.wardens import ROOT

BEFORE = """
import os, resource, signal, socket, sys, fcntl
sys.path.insert(0, sys.argv[1])
from blueflame.warden.wakeup import PollLoop
bell = PollLoop()
ours, theirs = socket.socketpair()
said = []
"""


def ring(text: str) -> str:
    argv = [sys.executable, "-I", "-S", "-c", BEFORE + text, str(ROOT)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def test_a_served_file_is_answered_when_it_can_be_read() -> None:
    assert (
        ring("""
bell.serve(ours.fileno(), lambda: said.append(ours.recv(9)))
theirs.send(b"hello")
bell.wait(20)
print(said)
""")
        == "[b'hello']"
    )


def test_a_served_file_is_answered_when_it_can_be_written() -> None:
    assert (
        ring("""
bell.serve(ours.fileno(), lambda: said.append(1), reading=False, writing=True)
bell.wait(20)
print(said)
""")
        == "[1]"
    )


def test_a_file_that_hung_up_is_answered() -> None:
    assert (
        ring("""
bell.serve(ours.fileno(), lambda: said.append(ours.recv(9)))
theirs.close()
bell.wait(20)
print(said)
""")
        == "[b'']"
    )


def test_a_forgotten_file_is_not_answered() -> None:
    assert (
        ring("""
bell.serve(ours.fileno(), lambda: said.append(1))
bell.forget(ours.fileno())
bell.forget(ours.fileno())
theirs.send(b"hello")
bell.wait(0.05)
print(said)
""")
        == "[]"
    )


def test_an_answer_may_forget_the_next_one() -> None:
    assert (
        ring("""
more, others = socket.socketpair()
handles = sorted([ours.fileno(), more.fileno()])
bell.serve(handles[0], lambda: (said.append("first"), bell.forget(handles[1])))
bell.serve(handles[1], lambda: said.append("second"))
theirs.send(b"x"); others.send(b"x")
bell.wait(20)
print(said)
""")
        == "['first']"
    )


def test_files_above_1024_are_served() -> None:
    assert (
        ring("""
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
high = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, 3000)
bell.serve(high, lambda: said.append(os.read(high, 9)))
theirs.send(b"hello")
bell.wait(20)
print(high >= 3000, said)
""")
        == "True [b'hello']"
    )


@pytest.mark.parametrize("served", [True, False])
def test_signals_ring_beside_the_files(served: bool) -> None:
    serve = "bell.serve(ours.fileno(), lambda: said.append(ours.recv(9))); theirs.send(b'x')" if served else ""
    assert ring(f"""
{serve}
os.kill(os.getpid(), signal.SIGTERM)
bell.wait(20)
print(bell.stops, said)
""") == ("1 [b'x']" if served else "1 []")


def test_a_wait_ends_with_its_time() -> None:
    assert ring("bell.wait(0.01); bell.wait(-1); print('done')") == "done"
