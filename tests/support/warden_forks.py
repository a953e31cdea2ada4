"""Wardens by the hundred: one process per test worker has their modules imported and forks a warden for each attempt.

Starting Python and importing the warden takes longer than what most scripted agents do. A forked warden runs the same
code in a process of its own, detached and with the same environment. Wardens started as programs are the subject of
tests/integration/warden, of the long run of tests/crash, and of those tests in tests/acceptance that start programs.

Run as a program it is the server: `python warden_forks.py`, with its end of the socket as standard input.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

MAX_ORDER_BYTES = 1 << 16
MODULES = (
    *("warden.main", "warden.cgroup", "warden.namespaces", "warden.resource_limits"),
    *("watcher.server", "watcher.policy_file", "watcher.world", "policy.decide", "policy.shell.judge"),
)


class WardenForks:
    """The tests' end of the server."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def start_detached(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, log: Path, stdin: bytes = b""
    ) -> int:
        """As system/process.start_detached does for a warden, whose last argument is its folder."""
        reader, writer = os.pipe()
        answer, answers = os.pipe()  # of this order alone: orchestrators that share the line may be killed
        try:
            os.write(writer, stdin)
            os.close(writer)
            order = {"folder": argv[-1], "cwd": str(cwd), "env": dict(env or {}), "log": str(log)}
            socket.send_fds(self._line, [json.dumps(order).encode()], [reader, answers])
            os.close(answers)
            return int(os.read(answer, 32))
        finally:
            os.close(reader)
            os.close(answer)

    def fileno(self) -> int:
        """For a process that starts orchestrators: it passes this on to them."""
        return self._line.fileno()


@contextmanager
def start_warden_forks() -> Iterator[WardenForks]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", __file__, str(_find_source_folder())]
    with ours, subprocess.Popen(argv, stdin=theirs.fileno()) as server:
        theirs.close()
        yield WardenForks(ours)
        ours.shutdown(socket.SHUT_RDWR)
        server.wait()


def _find_source_folder() -> Path:
    import blueflame

    return Path(blueflame.__file__).parents[1]


def serve_orders(run: Callable[[list[str]], int]) -> None:
    """Until the tests have hung up."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: a warden that has ended is gone
    with socket.socket(fileno=os.dup(0)) as line:
        while True:
            data, handles, _, _ = socket.recv_fds(line, MAX_ORDER_BYTES, 2)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                line.close()
                _run_warden(json.loads(data), handles[0], run)
            with suppress(BrokenPipeError):  # the orchestrator was killed: its warden runs nevertheless
                os.write(handles[1], str(pid).encode())
            for handle in handles:
                os.close(handle)


def _run_warden(order: Mapping[str, str], stdin: int, run: Callable[[list[str]], int]) -> NoReturn:
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((stdin, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.closerange(3, 64)
        os.environ.clear()
        os.environ.update(order["env"])  # type: ignore[arg-type]  # JSON has no types
        os.chdir(order["cwd"])
        code = run([order["folder"]])
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    for name in MODULES:
        importlib.import_module(f"blueflame.{name}")
    os.fsync = lambda fd: None  # as support/unsynced.py
    gc.freeze()  # a collection in a warden would copy the pages of all modules
    serve_orders(importlib.import_module("blueflame.warden.main").main)
