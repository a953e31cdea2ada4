"""Fork wardens from one process that has their modules imported, which takes longer than most commands that they run.

An order comes through the socket of the orchestrator: a line of JSON with the attempt's folder and the environment of
its warden, and three open files: its standard input, its log, and a pipe for the answer, its pid or the negative number
of an error. Nothing is kept of an order. When the orchestrator has closed the socket or is gone, this process ends;
the wardens do not notice.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module

from blueflame.warden.main import main as run_warden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

USUAL_MODULES = (
    *("warden.cgroup", "warden.namespaces", "warden.resource_limits"),
    *("watcher.server", "watcher.ask_tool", "watcher.policy_file", "watcher.world"),
    *("policy.decide", "policy.shell.judge"),
)
MAX_ORDER_BYTES = 1 << 16
MAX_NAME = 15  # of the kernel


def main(handle: int) -> int:
    signal.signal(signal.SIGCHLD, _reap_wardens)
    _import_usual_modules()
    with socket.socket(fileno=handle) as line:
        while (order := _read_order(line)) is not None:
            if _fork_warden(*order):
                line.close()
                _set_name(order[0]["folder"])
                code = run_warden([order[0]["folder"]])
                sys.stderr.flush()
                os._exit(code)  # to tear down all modules would copy their pages
    return 0


def _read_order(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    data, files, _, _ = socket.recv_fds(line, MAX_ORDER_BYTES, 3)
    while data and not data.endswith(b"\n"):
        more = line.recv(MAX_ORDER_BYTES)
        data = data + more if more else b""
    return (json.loads(data), files) if data else None


def _import_usual_modules() -> None:
    for name in USUAL_MODULES:
        import_module(f"blueflame.{name}")
    gc.freeze()  # a collection in a warden would copy the pages of all modules


def _fork_warden(order: dict[str, Any], files: list[int]) -> bool:
    """Return whether this is the warden."""
    try:
        pid = os.fork()
    except OSError as e:
        pid = -1
        _answer(files[2], -(e.errno or errno.EAGAIN))
    if pid == 0:
        _detach(order["env"], *files)
        _answer(files[2], os.getpid())
    for each in files:
        os.close(each)
    return pid == 0


def _detach(env: dict[str, str], source: int, log: int, _answers: int) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(source, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(env)


def _set_name(folder: str) -> None:
    """Name the process by its attempt, without the session: `ps` shows the command line of the one that forked it."""
    name = folder.rpartition("/")[2].partition(".")[2]
    with suppress(OSError):
        comm = os.open("/proc/self/comm", os.O_WRONLY)
        os.write(comm, name.encode()[:MAX_NAME])
        os.close(comm)


def _answer(pipe: int, number: int) -> None:
    with suppress(BrokenPipeError):  # the orchestrator was killed: the warden runs nevertheless
        os.write(pipe, str(number).encode())


def _reap_wardens(_number: int, _frame: FrameType | None) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
