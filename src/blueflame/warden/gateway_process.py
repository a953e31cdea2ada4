"""The warden's side of the gateway: start it, give it listeners, end it.

The gateway is forked twice, so that it is not a descendant of the warden, which kills all its descendants at the end.
Only the control socket connects the two: however the warden ends, the kernel closes the warden's side of it.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress

from blueflame.gateway.options import AGENT_LISTENER, SETUP_LISTENER, read_options
from blueflame.system.fd import list_open_files
from blueflame.warden.output import open_log
from blueflame.warden.poll_loop import reset_signals
from blueflame.warden.process_tree import read_process, signal_process, suspend_subreaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from blueflame.gateway.connect import Resolver
    from blueflame.gateway.options import GatewayOptions
    from blueflame.warden.process_tree import ProcessInfo

CONTROL_FD = 3  # the only descriptor the gateway keeps, besides input and log
MAX_FILE_BYTES = 64 * 1024 * 1024  # a failure must not fill the disk
MAX_CASSETTE_BYTES = 4 * 1024 * 1024 * 1024
START_TIMEOUT = 10.0
END_TIMEOUT = 4.0  # a model call that is being answered is read on for 1.5 seconds


class GatewayProcess:
    """A running gateway; not a child of the warden.

    `parked` is why its agent waits for the model, `refused` which budget is used up, `gave_up` why it stopped waiting,
    `unanswered` why its last call got no whole answer, `quiet` since when its provider sends nothing and how long that
    is usual; each is None if that has not happened. `killed`: it was ended, or hindered, from outside.
    `read_messages` updates them.
    """

    def __init__(self, folder: str, control: socket.socket, pid: int, known: ProcessInfo | None) -> None:
        self._folder = folder
        self._control = control
        self._received = b""
        self._known = known
        self._problem = ""
        self.pid = pid
        self.killed = False
        self.parked: dict[str, Any] | None = None
        self.refused: dict[str, Any] | None = None
        self.gave_up: dict[str, Any] | None = None
        self.unanswered: dict[str, Any] | None = None
        self.quiet: dict[str, Any] | None = None
        self._warnings: list[str] = []

    def add_listener(self, listener: socket.socket, *, setup: bool = False) -> None:
        """Let the gateway serve this listening socket as well, and close ours; registries are open in `setup` only."""
        try:
            kind = SETUP_LISTENER if setup else AGENT_LISTENER
            socket.send_fds(self._control, [kind], [listener.fileno()])
        except OSError as e:
            raise OSError(e.errno, f"cannot give the gateway its listener: {self.problem or e.strerror}") from e
        finally:
            listener.close()

    @property
    def problem(self) -> str:
        """Why it does not serve any more; "" while it does."""
        self.read_messages()
        return self._problem

    @property
    def handle(self) -> int:
        """The descriptor to poll for its messages; -1 when closed."""
        return self._control.fileno()

    def read_messages(self) -> None:
        """Read all pending messages without waiting."""
        while not self._problem:
            try:
                data = self._control.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._parse_messages(data)
            if not data and not self._problem:
                self.killed = True
                self._set_problem("it is gone")

    def _parse_messages(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").partition(" ")
            if word == "problem":
                self._set_problem(rest.strip() or "it broke")
            elif word == "resumed":
                self.parked = None
            elif word == "heard":
                self.quiet = None
            elif word == "answered":
                self.unanswered = None
                self.gave_up = None if (self.gave_up or {}).get("account") else self.gave_up
            elif word in ("parked", "refused", "gave_up", "near", "quiet", "unanswered", "hindered"):
                self._record_message(word, rest)

    def _record_message(self, word: str, rest: str) -> None:
        try:
            found = json.loads(rest)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self._set_problem(f"unexpected message: {word} {rest[:80]}")
        elif word == "parked":
            self.parked = found
        elif word == "unanswered":
            self.unanswered = found
        elif word == "quiet":
            self.quiet = found
        elif word == "hindered":
            self.killed = True
            self._set_problem(str(found.get("reason", "")))
        elif word == "near":
            self._warnings.append(str(found.get("words", "")))
        elif word == "refused":
            self.refused = self.refused or found
        else:
            self.gave_up = self.gave_up or found

    def take_warnings(self) -> list[str]:
        """Return the budgets that are nearly used up, each once."""
        taken, self._warnings = self._warnings, []
        return taken

    def _set_problem(self, reason: str) -> None:
        self._problem = self._problem or f"{reason} (see {self._folder}/gateway.log)"

    def close(self) -> None:
        """End it. On return its log is complete and it has exited."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
            self._control.settimeout(END_TIMEOUT)
            while data := self._control.recv(65536):
                self._parse_messages(data)
        self._problem = self._problem or "it was closed"
        self._control.close()
        if self._known is not None:
            _wait_for_exit(self._known)
            self._known = None


def _wait_for_exit(member: ProcessInfo) -> None:
    """Wait until the process is gone; kill one that hangs."""
    give_up = time.monotonic() + END_TIMEOUT
    while (now := read_process(member.pid)) is not None and now.start_time == member.start_time:
        if time.monotonic() > give_up:
            signal_process(member, signal.SIGKILL)
            return
        time.sleep(0.001)


def start_gateway(
    folder: str,
    gateway: Mapping[str, Any],
    secrets: Mapping[str, str] | None = None,
    *,
    resolve: Resolver | None = None,
) -> GatewayProcess:
    """Start the gateway before anything else. Raise ValueError for invalid options, OSError if it does not start.

    The secrets reach it by the fork and are kept nowhere on this side.
    """
    orders = read_options(folder, gateway, secrets)
    ours, theirs = socket.socketpair()
    with ExitStack() as undo:
        undo.enter_context(ours)
        with theirs, suspend_subreaper():
            _fork_twice(theirs, orders, resolve)
        pid = _read_pid(ours)
        undo.pop_all()
    return GatewayProcess(orders.folder, ours, pid, read_process(pid))


def _fork_twice(control: socket.socket, orders: GatewayOptions, resolve: Resolver | None) -> None:
    middle = os.fork()
    if middle == 0:
        _run_middle_process(control, orders, resolve)
    os.waitpid(middle, 0)


def _read_pid(control: socket.socket) -> int:
    """Read the pid that the gateway sends when it is set up, or why it failed."""
    control.settimeout(START_TIMEOUT)
    try:
        line = b""
        while not line.endswith(b"\n") and (letter := control.recv(1)):
            line += letter
    except TimeoutError as e:
        raise OSError("the gateway did not start in time") from e
    control.settimeout(None)
    word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
    if word != "pid":
        raise OSError(f"the gateway could not be started: {rest or 'no process could be made for it'}")
    return int(rest)


def _run_middle_process(control: socket.socket, orders: GatewayOptions, resolve: Resolver | None) -> NoReturn:
    """Fork the gateway in the first child and exit, so that it is reparented."""
    code = 1
    try:
        if os.fork() == 0:
            _run_gateway(control, orders, resolve)
        code = 0
    finally:
        os._exit(code)


def _run_gateway(control: socket.socket, orders: GatewayOptions, resolve: Resolver | None) -> NoReturn:
    gc.freeze()  # a collected socket of the warden would close a descriptor that this process has reused
    try:
        most = MAX_CASSETTE_BYTES if orders.model is not None and orders.model.record else MAX_FILE_BYTES
        control = _drop_inherited_state(control, orders.folder, most)
        control.sendall(b"pid %d\n" % os.getpid())
        from blueflame.gateway.server import run

        run(control, orders, *([resolve] if resolve else []))
    except BaseException as e:  # noqa: BLE001 (a forked child must never come back into the warden's own code)
        _report_failure(control, e)
    finally:
        os._exit(0)


def _drop_inherited_state(control: socket.socket, folder: str, largest_file: int) -> socket.socket:
    """Drop the warden's files (its lock above all), signal settings, folder and terminal."""
    os.setsid()
    os.chdir("/")
    reset_signals()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the failed call reports both
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for limit, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, largest_file)):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (most, hard))
    log = open_log(f"{folder}/gateway.log")
    wanted = (os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), log, log, control.fileno())
    lifted = [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, CONTROL_FD + 1) for handle in wanted]
    control.detach()
    for place, handle in enumerate(lifted):
        os.dup2(handle, place, inheritable=False)
    for handle in list_open_files():
        if handle > CONTROL_FD:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(handle)
    return socket.socket(fileno=CONTROL_FD)


def _report_failure(control: socket.socket, problem: BaseException) -> None:
    with suppress(OSError):
        sys.excepthook(type(problem), problem, problem.__traceback__)
        sys.stderr.flush()
    with suppress(OSError):
        control.sendall(f"problem {type(problem).__name__}: {problem}\n".encode("utf-8", "replace")[:2000])
