"""Start hundreds of orchestrators: one process imports everything and forks an orchestrator for each order.

Starting Python and importing Blue Flame takes longer than the session that is to be killed. A forked orchestrator runs
the same command line (`blueflame run`, `blueflame resume`), with a fault in it if one is ordered (see faults.py).

Run as a program it is the fork server; `ForkServer` is its client.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from crash.scenario import Scenario
from support.warden_forks import WardenForks

PATIENCE = 120.0  # seconds without a new event
MOST_WAITS = 10  # of PATIENCE in all: it may write the same events again and again
IMPORTED_LATE = ("anyio._backends._asyncio", "anyio.to_thread", "concurrent.futures.thread", "pathspec", "queue")


@dataclass
class ForkedOrchestrator:
    """A process started by the fork server; a zombie until the fork server has reaped it and reported its exit."""

    fork_server: ForkServer
    pid: int
    journal: Path
    code: int | None = None

    def wait(self, seconds: float = PATIENCE) -> int | None:
        """Return its exit code (negative: a signal), or None if it still runs after that time."""
        self.fork_server.listen(until=lambda: self.code is not None, seconds=seconds)
        return self.code

    def end(self) -> int:
        """Wait as long as it records something: how long a session takes depends on what else the machine does."""
        seen: object = None
        for _ in range(MOST_WAITS):
            if (code := self.wait()) is not None:
                return code
            before, seen = seen, self.read_progress()
            if seen == before:
                break
        self.fork_server.signal(self.pid, signal.SIGUSR1)  # it writes down where it stands
        self.wait(2)
        self.fork_server.signal(self.pid, signal.SIGKILL)
        self.wait()
        raise AssertionError(f"orchestrator {self.pid} does not come to an end: see its log")

    def await_progress(self) -> None:
        """Wait until it has recorded something, or has ended."""
        seen = self.read_progress()
        while self.wait(0.01) is None and self.read_progress() == seen:
            pass

    def read_progress(self) -> object:
        files = (self.journal, self.journal.with_name(f"{self.journal.name}-wal"))
        return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]

    def kill(self) -> bool:
        """Return whether it was alive. Its pid cannot be reused: we kill only processes that are not reaped."""
        if self.wait(0) is None:
            self.fork_server.signal(self.pid, signal.SIGKILL)
        return self.end() == -signal.SIGKILL


@dataclass
class ForkServer:
    process: subprocess.Popen[bytes]
    shares_wardens: bool = False  # those of all orchestrators are forked from one process; or each has its own
    _rest: bytes = b""
    _known: dict[int, ForkedOrchestrator] = field(default_factory=dict)
    _born: list[int] = field(default_factory=list)

    def start(self, scenario: Scenario, verb: str, fault: Mapping[str, Any] | None = None) -> ForkedOrchestrator:
        order = {
            "argv": scenario.argv(verb),
            "env": scenario.environment,
            "cwd": str(scenario.home),
            "log": str(scenario.log),
            "fault": dict(fault or {}),
            "shares_wardens": self.shares_wardens,
        }
        self._send(order)
        self.listen(until=lambda: bool(self._born), seconds=PATIENCE)
        pid = self._born.pop()
        self._known[pid] = ForkedOrchestrator(self, pid, scenario.root / ".blueflame" / "journal.db")
        return self._known[pid]

    def run(self, scenario: Scenario, verb: str, fault: Mapping[str, Any] | None = None) -> int:
        return self.start(scenario, verb, fault).end()

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Signal through the fork server, the parent: until it reaps the process, the pid is not reused."""
        self._send({"pid": pid, "signal": int(number)})

    def _send(self, order: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def listen(self, *, until: Callable[[], bool], seconds: float) -> None:
        assert self.process.stdout is not None
        give_up = time.monotonic() + seconds
        handle = self.process.stdout.fileno()
        while not until():
            left = give_up - time.monotonic()
            ready, _, _ = select.select([handle], [], [], max(0.0, left))
            if not ready:
                return
            self._rest += (data := os.read(handle, 65536))
            assert data, "the fork_server is gone"
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._hear(json.loads(line))

    def _hear(self, said: Mapping[str, int]) -> None:
        if "born" in said:
            self._born.append(said["born"])
        else:
            self._known.pop(said["ended"]).code = said["code"]


@contextmanager
def start_fork_server(wardens: WardenForks) -> Iterator[ForkServer]:
    paths = [str(Path(__file__).parents[1]), *(path for path in sys.path if path)]
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(wardens.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        pass_fds=[wardens.fileno()],
    )
    with process:
        yield ForkServer(process)
        assert process.stdin is not None
        process.stdin.close()


def serve_orders() -> None:
    """Read orders and report starts and ends, until stdin is closed."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, _handle_signal)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    rest, alive = b"", set[int]()
    while True:
        ready, _, _ = select.select([0, reader], [], [])
        if reader in ready:
            os.read(reader, 4096)
        _reap_children(alive)
        if 0 not in ready:
            continue
        data = os.read(0, 1 << 20)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            _run_order(json.loads(line), alive)
    for pid in alive:  # the client is gone
        os.kill(pid, signal.SIGKILL)


def _handle_signal(number: int, frame: FrameType | None) -> None:
    """Exists so that the wakeup pipe gets the signal."""


def _run_order(order: Mapping[str, Any], alive: set[int]) -> None:
    if "signal" in order:
        if order["pid"] in alive:
            os.kill(order["pid"], order["signal"])
        return
    pid = os.fork()
    if pid == 0:
        _run_orchestrator(order)
    alive.add(pid)
    _write_message({"born": pid})


def _reap_children(alive: set[int]) -> None:
    for pid in sorted(alive):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            alive.discard(pid)
            _write_message({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _write_message(news: Mapping[str, int]) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


def _run_orchestrator(order: Mapping[str, Any]) -> NoReturn:
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for handle, source in ((0, os.open("/dev/null", os.O_RDONLY)), (1, log), (2, log)):
            os.dup2(source, handle)
        faulthandler.register(signal.SIGUSR1, file=2)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        if order["shares_wardens"]:
            _share_wardens()
        code = _run_command(order["argv"], order["fault"])
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:  # before the command line had begun
        code = 130
    finally:
        os._exit(code)


def _share_wardens() -> None:
    from blueflame.cli import foreground
    from blueflame.orchestrator.engine import local

    wardens = WardenForks(socket.socket(fileno=int(sys.argv[1])))
    local.start_warden = wardens.start_warden  # type: ignore[attr-defined]  # as a fixture does elsewhere
    foreground.prepare_wardens = lambda _logs: None  # type: ignore[assignment,attr-defined]


def _run_command(argv: list[str], fault: Mapping[str, Any]) -> int:
    from blueflame.cli.main import run
    from crash.faults import inject_fault

    inject_fault(fault)
    return int(run(argv))


def _import_everything() -> None:
    """Import once, and not in every orchestrator."""
    ours = ("cli.command_table", "cli.commands.run", "cli.foreground", "cli.main", "cli.stale_checkouts")
    also = ("documents.decisions", "orchestrator.cleanup", "orchestrator.loop")
    for name in (*(f"blueflame.{name}" for name in (*ours, *also)), *IMPORTED_LATE, "crash.faults"):
        importlib.import_module(name)


if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)
    _import_everything()
    serve_orders()
