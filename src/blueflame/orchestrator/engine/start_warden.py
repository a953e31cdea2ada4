"""Start wardens: a process of ours forks them, because it has their modules imported (warden/fork_server).

One such process serves all engines of this process. It is started ahead where a session is about to run; if it was
killed, the next warden brings a new one.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import blueflame
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ProcessFailed
from blueflame.system.process import BackgroundProcess, find_start_fix, open_log, read_tail, start_background

FORK_SERVER_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from blueflame.warden.fork_server import main; "
    "raise SystemExit(main(int(sys.argv[2])))"
)
WARDEN_ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),  # certificates with which the gateway verifies a model's provider
)
MAX_INPUT_BYTES = 4096  # the minimum that a pipe holds
FORK_SERVER_LOG = "fork-server.log"
ANSWER_TIMEOUT = 15.0  # seconds; one that was stopped is replaced
END_TIMEOUT = 1.0


def build_python_argv(code: str, *arguments: str) -> list[str]:
    """Python without its site, as wardens run: with it a start takes twice as long."""
    root = Path(blueflame.__file__).parents[1]
    return [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", code, str(root), *arguments]


def build_warden_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in WARDEN_ENVIRONMENT if name in os.environ}


@dataclass(frozen=True, slots=True)
class ForkServer:
    """The process that forks wardens."""

    line: socket.socket
    process: BackgroundProcess

    def close(self) -> None:
        """End it; the wardens go on."""
        self.line.close()
        if not self.process.wait(END_TIMEOUT):
            self.process.kill()


_servers: list[ForkServer] = []  # at most one


def prepare_wardens(logs: Path) -> None:
    """Start the process that forks them beside what comes before the first attempt: its imports take as long."""
    if not _servers:
        with suppress(ProcessFailed, OSError):  # the first warden tries again, and reports it
            _servers.append(start_fork_server(logs / FORK_SERVER_LOG))


def start_warden(folder: Path, secrets: Mapping[str, str]) -> int:
    """Start a warden that outlives us, in a session of its own. Return its pid. Raises ProcessFailed.

    `secrets` are its whole input, through a pipe: at most MAX_INPUT_BYTES, so that we never wait until it reads.
    """
    log = folder / "warden.log"
    with open_log(log) as sink:
        for _try in range(2):
            if not _servers:
                _servers.append(start_fork_server(log))
            if (pid := order_warden(_servers[0].line, folder, secrets, sink.fileno())) is not None:
                return pid
            close_fork_server()
    why = read_tail(log, 2000).strip() or "its log is empty"
    raise ProcessFailed(f"cannot start a warden: the process that forks them does not answer ({log}): {why}")


def close_fork_server() -> None:
    while _servers:
        _servers.pop().close()


def start_fork_server(log: Path) -> ForkServer:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        argv = build_python_argv(FORK_SERVER_CODE, str(theirs.fileno()))
        try:
            process = start_background(argv, env=build_warden_environment(), log=log, handles=[theirs.fileno()])
        except (ProcessFailed, OSError):
            ours.close()
            raise
    return ForkServer(ours, process)


def order_warden(line: socket.socket, folder: Path, secrets: Mapping[str, str], log: int) -> int | None:
    """Return the pid of the new warden; None when no answer comes."""
    order = json.dumps({"folder": str(folder), "env": build_warden_environment()}).encode() + b"\n"
    data = json.dumps(dict(secrets)).encode() if secrets else b""
    with _open_input(data) as source:
        answer, answers = os.pipe()
        try:
            try:
                _send_order(line, order, [source, log, answers])
            finally:
                os.close(answers)
            said = _read_answer(answer)
        except OSError:  # it is gone
            return None
        finally:
            os.close(answer)
    if said.startswith(b"-"):
        code = -int(said)
        raise ProcessFailed(f"cannot start a warden: {os.strerror(code)}; {find_start_fix(sys.executable, code)}")
    return int(said) if said else None


def _send_order(line: socket.socket, order: bytes, files: Sequence[int]) -> None:
    sent = socket.send_fds(line, [order], files)
    if sent < len(order):
        line.sendall(order[sent:])


def _read_answer(pipe: int) -> bytes:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return os.read(pipe, 32) if poll.poll(ANSWER_TIMEOUT * 1000) else b""


@contextmanager
def _open_input(data: bytes) -> Iterator[int]:
    """Yield the reading end of a pipe that holds the data."""
    if len(data) > MAX_INPUT_BYTES:
        raise ProcessFailed(f"{len(data)} bytes of input are too many: a pipe holds {MAX_INPUT_BYTES}")
    reader, writer = os.pipe()
    try:
        try:
            os.write(writer, data)
        finally:
            os.close(writer)
        yield reader
    finally:
        os.close(reader)


def _forget_server() -> None:
    """In a child of ours it is the parent's."""
    for each in _servers:
        each.line.close()
    _servers.clear()


atexit.register(close_fork_server)
os.register_at_fork(after_in_child=_forget_server)
