"""Run other programs: the only module that does. Every wait has a timeout, and nothing outlives its call.

Only `start_detached` and `start_background` leave a process running, in its own session. A child that leaves its
process group and its parent (a double fork with setsid) cannot be reached from here; agents, which might do that, run
under a warden that is their subreaper.
"""

from __future__ import annotations

import errno
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import IO, NamedTuple, ParamSpec

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ProcessFailed, ProcessTimedOut
from blueflame.system.environment import remove_model_keys
from blueflame.system.files import open_temporary_file
from blueflame.text.sanitize import encode_text

_Arguments = ParamSpec("_Arguments")


class ProcessResult(NamedTuple):
    code: int
    out: str
    err: str


class ProcessResultBytes(NamedTuple):
    code: int
    out: bytes
    err: bytes
    truncated: bool = False  # it was stopped because there was more output


def run(
    *argv: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    timeout: float | None = 60,
) -> ProcessResult:
    """Run to the end or the timeout. Bytes that are not UTF-8 become surrogates; line ends are kept."""
    done = run_bytes(*argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout)
    return ProcessResult(done.code, _decode_text(done.out), _decode_text(done.err))


def _rerun_after_interrupt(
    execute: Callable[_Arguments, ProcessResultBytes],
) -> Callable[_Arguments, ProcessResultBytes]:
    """Ctrl-C at the terminal reaches a child until it has a session of its own; it has not run anything then."""

    @wraps(execute)
    def execute_twice(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> ProcessResultBytes:
        done = execute(*args, **kwargs)
        return execute(*args, **kwargs) if done.code == -signal.SIGINT else done

    return execute_twice


@_rerun_after_interrupt
def run_bytes(
    *argv: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    timeout: float | None = 60,
) -> ProcessResultBytes:
    fed = encode_text(stdin) if isinstance(stdin, str) else stdin
    source = subprocess.DEVNULL if fed is None else subprocess.PIPE
    with _run_child(argv, cwd=cwd, env=env, stdin=source) as child:
        try:
            out, err = child.communicate(fed, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise _build_timeout_error(argv, cwd, timeout) from None
    return ProcessResultBytes(child.returncode, out, err)


@_rerun_after_interrupt
def run_capped(
    *argv: str,
    cwd: Path,
    max_bytes: int,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 60,
    max_memory: int | None = None,
) -> ProcessResultBytes:
    """Read at most `max_bytes` of output, then stop the program. `max_memory` limits what it allocates."""
    with (
        open_temporary_file(stdin) as source,
        open_temporary_file() as err,
        _run_child(argv, cwd=cwd, env=env, stdin=source, stderr=err) as child,
        _kill_after(child, timeout) as timed_out,
    ):
        if max_memory is not None:
            limit_memory(child.pid, max_memory)
        assert child.stdout is not None
        out = child.stdout.read(max_bytes + 1)
        if truncated := len(out) > max_bytes:
            kill_group(child.pid)
        child.wait()
        if timed_out.is_set():
            raise _build_timeout_error(argv, cwd, timeout)
        err.seek(0)
        return ProcessResultBytes(child.returncode, out[:max_bytes], err.read(), truncated)


def limit_memory(pid: int, size: int) -> None:
    """Limit what a process allocates; files that it maps do not count. Only Linux can do it from outside."""
    if sys.platform == "linux":
        with suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))


def read_tail(path: Path, max_bytes: int) -> str:
    """Read the end of a log that may be huge, missing, or still written."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            data = file.read(max_bytes)
    except FileNotFoundError:
        return ""
    if size > max_bytes:  # the cut may split a character: drop the rest of it
        data = data[:4].lstrip(bytes(range(0x80, 0xC0))) + data[4:]
    return data.decode("utf-8", "replace")


def start_detached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, log: Path) -> int:
    """Start a process that outlives us, in a new session, with output to `log`. Return its pid."""
    _reap_detached()
    with open_log(log) as sink:
        null = subprocess.DEVNULL
        child = start_process(argv, cwd=cwd, env=env, stdin=null, stdout=sink, stderr=subprocess.STDOUT)
    child.returncode = 0  # Popen must neither wait for it nor warn about it
    _DETACHED_PIDS.add(child.pid)
    return child.pid


_DETACHED_PIDS: set[int] = set()


def _reap_detached() -> None:
    """Reap detached children that ended, which would stay zombies."""
    for pid in sorted(_DETACHED_PIDS):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            ended = pid
        if ended:
            _DETACHED_PIDS.discard(pid)


def start_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None,
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> subprocess.Popen[bytes]:
    given = remove_model_keys(os.environ if env is None else env)
    try:
        return subprocess.Popen(
            argv, cwd=cwd, env=given, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except FileNotFoundError as e:
        if not cwd.is_dir():
            raise ProcessFailed(f"cannot run {argv[0]}: the folder {cwd} does not exist") from e
        found = shutil.which(argv[0], path=given.get("PATH"))
        if found is not None:
            cause = f"{found} or the program in its first line does not exist"
            raise ProcessFailed(f"cannot run {argv[0]}: {cause}; repair or reinstall it") from e
        raise ProcessFailed(f"cannot run {argv[0]}: no such program on PATH; install it or correct its name") from e
    except OSError as e:
        raise ProcessFailed(f"cannot run {argv[0]} in {cwd}: {e.strerror}; {find_start_fix(argv[0], e.errno)}") from e
    except ValueError as e:  # a NUL byte in an argument
        raise ProcessFailed(f"cannot run {argv[0]!r} in {cwd}: {e}") from e


LIMIT_REACHED = "the limit on processes is reached: end some, or raise 'ulimit -u' or the limit of the control group"
START_FIXES = {
    errno.EACCES: "make it executable (chmod +x), or reinstall it; its folder must be readable, too",
    errno.ENOEXEC: "it is damaged or for another kind of machine: reinstall it",
    errno.EAGAIN: "the limit on processes is reached: end some, or raise 'ulimit -u'",
    errno.EMFILE: "the limit on open files is reached: raise 'ulimit -n'",
    errno.ENFILE: "the system's limit on open files is reached: close other programs",
    errno.ENOMEM: "free some memory",
    errno.E2BIG: "the environment or the arguments are too large: unset large variables",
}


def find_start_fix(program: str, error: int | None) -> str:
    """What to do when a program cannot be started, by the number of the error."""
    return START_FIXES.get(error or 0, f"run '{program}' yourself to see what is wrong")


@contextmanager
def _run_child(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None,
    stdin: int | IO[bytes],
    stderr: int | IO[bytes] = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a child whose whole group is killed if the block raises, also on an interrupt."""
    with defer_interrupts() as let_in:
        child = start_process(argv, cwd=cwd, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)
        with child, ExitStack() as undo:
            undo.callback(child.wait)  # Popen itself does not wait after an interrupt
            undo.callback(kill_group, child.pid)
            let_in()
            yield child
            undo.pop_all()


@contextmanager
def _kill_after(child: subprocess.Popen[bytes], seconds: float) -> Iterator[threading.Event]:
    timed_out = threading.Event()

    def kill() -> None:
        if child.poll() is None:
            timed_out.set()
            kill_group(child.pid)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError as e:
        raise ProcessFailed(f"cannot start a thread ({e}): {LIMIT_REACHED}") from e
    try:
        yield timed_out
    finally:
        timer.cancel()
        timer.join()


def kill_group(pgid: int) -> None:
    # PermissionError: on macOS, for a group of zombies
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signal.SIGKILL)


@contextmanager
def open_log(log: Path) -> Iterator[IO[bytes]]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        sink = log.open("ab")
    except OSError as e:
        raise ProcessFailed(f"cannot write the log {log}: {e.strerror}; free some space or fix its permissions") from e
    with sink:
        yield sink


def _build_timeout_error(argv: Sequence[str], cwd: Path, timeout: float | None) -> ProcessTimedOut:
    return ProcessTimedOut(f"{shlex.join(argv)} in {cwd}: not finished after {timeout} seconds, so it was killed")


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """A child in its own session, of which it is the leader."""

    _process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended by then."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.is_running

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        """Kill this process only."""
        self._process.kill()
        self._process.wait()

    def kill_group(self) -> None:
        """Kill its whole group, if it still runs."""
        if self.is_running:
            kill_group(self.pid)
            self._process.wait()


def start_background(
    argv: Sequence[str],
    *,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    handles: Sequence[int] = (),
    stdin: Path | None = None,
) -> BackgroundProcess:
    """Start with output to `log`, and without input unless `stdin` is a file; it inherits `handles`.

    Raises ProcessFailed.
    """
    given = os.open(stdin or os.devnull, os.O_RDONLY)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else os.open(os.devnull, os.O_WRONLY)
    try:
        started = subprocess.Popen(
            argv,
            cwd="/",
            env=env,
            stdin=given,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            pass_fds=handles,
        )
    except OSError as e:
        raise ProcessFailed(f"cannot run {argv[0]}: {e.strerror}") from e
    finally:
        os.close(given)
        os.close(sink)
    return BackgroundProcess(started)


@contextmanager
def defer_interrupts() -> Iterator[Callable[[], None]]:
    """Defer Ctrl-C until `let_in` is called: an exception inside Popen would lose the handle of a running child."""
    before = signal.getsignal(signal.SIGINT)
    # only the main thread may set signal handlers, and only it is interrupted
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    pending: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pending.append(number))

    def let_in() -> None:
        signal.signal(signal.SIGINT, before)
        if pending:
            signal.raise_signal(pending.pop())

    try:
        yield let_in
    finally:
        signal.signal(signal.SIGINT, before)
