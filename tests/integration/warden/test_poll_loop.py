"""The poll loop: signals and sockets, one thread, any descriptor numbers. Each test runs it in its own process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.wardens import ROOT

BEFORE = """
import os, resource, signal, socket, sys, fcntl
sys.path.insert(0, sys.argv[1])
from blueflame.warden.poll_loop import PollLoop
poll_loop = PollLoop()
ours, theirs = socket.socketpair()
said = []
"""


def ring(text: str) -> str:
    argv = [sys.executable, "-I", "-S", "-c", BEFORE + text, str(ROOT)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def test_a_served_file_is_answered_when_it_can_be_read() -> None:
    assert (
        ring("""
poll_loop.register(ours.fileno(), lambda: said.append(ours.recv(9)))
theirs.send(b"hello")
poll_loop.wait(20)
print(said)
""")
        == "[b'hello']"
    )


def test_a_served_file_is_answered_when_it_can_be_written() -> None:
    assert (
        ring("""
poll_loop.register(ours.fileno(), lambda: said.append(1), reading=False, writing=True)
poll_loop.wait(20)
print(said)
""")
        == "[1]"
    )


def test_a_file_that_hung_up_is_answered() -> None:
    assert (
        ring("""
poll_loop.register(ours.fileno(), lambda: said.append(ours.recv(9)))
theirs.close()
poll_loop.wait(20)
print(said)
""")
        == "[b'']"
    )


def test_a_forgotten_file_is_not_answered() -> None:
    assert (
        ring("""
poll_loop.register(ours.fileno(), lambda: said.append(1))
poll_loop.unregister(ours.fileno())
poll_loop.unregister(ours.fileno())
theirs.send(b"hello")
poll_loop.wait(0.05)
print(said)
""")
        == "[]"
    )


def test_a_handler_may_unregister_the_next_one() -> None:
    assert (
        ring("""
more, others = socket.socketpair()
handles = sorted([ours.fileno(), more.fileno()])
poll_loop.register(handles[0], lambda: (said.append("first"), poll_loop.unregister(handles[1])))
poll_loop.register(handles[1], lambda: said.append("second"))
theirs.send(b"x"); others.send(b"x")
poll_loop.wait(20)
print(said)
""")
        == "['first']"
    )


def test_files_above_1024_are_served() -> None:
    assert (
        ring("""
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
high = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, 3000)
poll_loop.register(high, lambda: said.append(os.read(high, 9)))
theirs.send(b"hello")
poll_loop.wait(20)
print(high >= 3000, said)
""")
        == "True [b'hello']"
    )


@pytest.mark.parametrize("served", [True, False])
def test_signals_ring_beside_the_files(served: bool) -> None:
    serve = "poll_loop.register(ours.fileno(), lambda: said.append(ours.recv(9))); theirs.send(b'x')" if served else ""
    assert ring(f"""
{serve}
os.kill(os.getpid(), signal.SIGTERM)
poll_loop.wait(20)
print(poll_loop.stops, said)
""") == ("1 [b'x']" if served else "1 []")


def test_a_wait_ends_with_its_time() -> None:
    assert ring("poll_loop.wait(0.01); poll_loop.wait(-1); print('done')") == "done"
