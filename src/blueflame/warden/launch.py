"""What to run, as the engine wrote it into launch.json, and the one careful way to start a program.

The child waits until the warden has written down who it is, so no agent ever runs that a later warden cannot find.
A warden is single-threaded, so that code between fork and exec is safe here, where limits and the parent-death signal
have to be set.
"""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress

from blueflame.warden.bell import forget_signals
from blueflame.warden.record import read_json
from blueflame.warden.tree import COOKIE, die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

LIMITS = {  # not "as": agents written in JavaScript map more than a hundred gigabytes and use a few hundred megabytes
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
SETUP_TIMEOUT = 300.0
GRACE = 5.0


class CannotStart(Exception):
    """The program could not be started; the message says which and why."""


class Step:
    """A command that makes the worktree ready before the agent starts."""

    __slots__ = ("argv", "name", "timeout")

    def __init__(self, name: str, argv: list[str], timeout: float) -> None:
        self.name = name
        self.argv = argv
        self.timeout = timeout


class Launch:
    __slots__ = (
        "argv",
        "attempt",
        "cwd",
        "env",
        "grace",
        "limits",
        "max_output",
        "setup",
        "signal",
        "silence",
        "stdin",
        "timeout",
    )

    def __init__(self, read: Mapping[str, Any]) -> None:
        self.attempt = str(read["attempt"])
        self.argv = _words(read["argv"], "argv")
        self.env = _environment(read.get("env", {}))
        self.cwd = str(read["cwd"])
        self.stdin = str(read.get("stdin") or "/dev/null")
        self.setup = [_step(step, n) for n, step in enumerate(read.get("setup", ()), start=1)]
        self.timeout = float(read.get("timeout", 0))  # 0: no limit, here and below
        self.grace = float(read.get("grace", GRACE))
        self.silence = float(read.get("silence", 0))
        self.max_output = int(read.get("max_output", 0))
        self.signal = str(read.get("signal", ""))
        self.limits = _limits(read.get("limits", {}))


def read_launch(folder: str) -> Launch:
    path = f"{folder}/launch.json"
    try:
        return Launch(read_json(path))
    except KeyError as e:
        raise CannotStart(f"{path}: {e.args[0]} is missing") from e
    except (OSError, ValueError, TypeError) as e:
        raise CannotStart(f"{path}: {e}") from e


def _words(value: object, what: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{what} must be a list of strings with at least one of them, not {value!r:.80}")
    return value


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("env must map names to strings")
    return value


def _step(value: Mapping[str, Any], n: int) -> Step:
    shell = value.get("shell")
    argv = ["/bin/sh", "-c", str(shell)] if shell is not None else _words(value.get("argv"), f"setup step {n}: argv")
    return Step(str(value.get("name") or shell or argv[0]), argv, float(value.get("timeout") or SETUP_TIMEOUT))


def _limits(value: Mapping[str, Any]) -> dict[int, int]:
    unknown = sorted(set(value) - set(LIMITS))
    if unknown:
        raise ValueError(f"limits: {unknown[0]} is not one of {', '.join(LIMITS)}")
    return {LIMITS[name]: int(value[name]) for name in sorted(value)}


def start(
    argv: list[str], launch: Launch, *, cookie: str, stdin: str, output: tuple[int, int], admit: Callable[[int], None]
) -> int:
    """Start `argv` in a session of its own and return its pid. `admit(pid)` is done before the program runs."""
    env = {**launch.env, COOKIE: cookie, "BLUEFLAME_ATTEMPT": launch.attempt}
    warden = os.getpid()
    try:
        gate, opener = os.pipe()
        complaints, complain = os.pipe()
        pid = os.fork()
    except OSError as e:
        raise CannotStart(f"cannot make a process for {argv[0]}: {e.strerror}") from e
    if pid == 0:
        os.close(opener)  # or the gate would stay shut for ever after the warden's death
        _become(argv, env, launch, stdin=stdin, output=output, warden=warden, gate=gate, complain=complain)
    os.close(gate)
    os.close(complain)
    try:
        admit(pid)
        _open_gate(opener)
    except OSError as e:
        os.close(opener)
        os.close(complaints)
        os.waitpid(pid, 0)  # it finds the gate closed and leaves
        raise CannotStart(f"cannot note down who the agent is, so it was not started: {e}") from e
    os.close(opener)
    problem = _read_all(complaints)
    if problem:
        os.waitpid(pid, 0)
        raise CannotStart(problem.decode("utf-8", "replace"))
    return pid


def _open_gate(opener: int) -> None:
    with suppress(BrokenPipeError):  # it died before it ran; its exit says so
        os.write(opener, b"g")


def _become(
    argv: list[str],
    env: dict[str, str],
    launch: Launch,
    *,
    stdin: str,
    output: tuple[int, int],
    warden: int,
    gate: int,
    complain: int,
) -> NoReturn:
    doing = "set up the process"
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != warden or os.read(gate, 1) != b"g":
            os._exit(127)  # the warden died before it could note us down
        forget_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        doing = f"read its input {stdin}"
        _plug(os.open(stdin, os.O_RDONLY), *output)
        doing = "set its limits"
        for limit, value in launch.limits.items():
            _, hard = resource.getrlimit(limit)
            ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (ceiling, ceiling))
        doing = f"enter the folder {launch.cwd}"
        os.chdir(launch.cwd)
        doing = f"run {argv[0]}"
        os.execvpe(argv[0], argv, env)  # noqa: S606 (no shell on purpose)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        os.write(complain, f"cannot {doing}: {reason}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _plug(source: int, out: int, err: int) -> None:
    for number, handle in enumerate((source, out, err)):
        os.dup2(handle, number)


def _read_all(handle: int) -> bytes:
    try:
        parts = []
        while part := os.read(handle, 4096):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)
