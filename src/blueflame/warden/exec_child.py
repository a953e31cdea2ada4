"""The warden's child between fork and exec: set up everything before the program runs.

A warden has one thread, so that Python code is safe here. A failure is reported to the warden in one sentence, and the
child exits with 127; a program is never run half set up.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import termios
from contextlib import suppress

from blueflame.system.fd import list_open_files
from blueflame.warden.entry_script import CONTROL_FD, SECCOMP_FD
from blueflame.warden.poll_loop import reset_signals
from blueflame.warden.process_tree import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import NoReturn

ERROR_FD = 11  # the error pipe, until the program runs
MIN_MOVED_FD = 32


class ExecPlan:
    """What the child executes. `ports` is None if it stays in the network of the warden.

    `in_namespaces`: it is cloned into new namespaces; `user` is its identity in a user namespace. `takes_terminal`: its
    stdin becomes its controlling terminal; in a sandbox the entry script does that.
    """

    def __init__(
        self, argv: list[str], env: dict[str, str], cwd: str, stdin: str | int, output: tuple[int, int]
    ) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.stdin = stdin
        self.output = output
        self.limits: dict[int, int] = {}
        self.control: socket.socket | None = None
        self.seccomp = ""
        self.in_namespaces = False
        self.takes_terminal = False
        self.user: tuple[int, int] | None = None
        self.ports: list[int] | None = None
        self.warden = os.getpid()
        self.start_pipe = self.error_pipe = -1


def exec_program(plan: ExecPlan) -> NoReturn:
    doing = "set up the process"
    try:
        os.setsid()
        die_with_parent()
        doing = "set up its namespaces"
        _set_up_namespaces(plan)
        doing = "set up the process"
        if os.read(plan.start_pipe, 1) != b"g" or (os.getppid() != plan.warden and not plan.in_namespaces):
            os._exit(127)  # the warden died before it recorded us
        reset_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        doing = f"read its input {plan.stdin}"
        files = {0: plan.stdin if isinstance(plan.stdin, int) else os.open(plan.stdin, os.O_RDONLY | os.O_CLOEXEC)}
        files |= {1: plan.output[0], 2: plan.output[1]}
        if plan.control is not None:
            files[CONTROL_FD] = plan.control.fileno()
        if plan.seccomp:
            doing = f"read the seccomp filter {plan.seccomp}"
            files[SECCOMP_FD] = os.open(plan.seccomp, os.O_RDONLY | os.O_CLOEXEC)
        doing = "arrange its files"
        _arrange_files(files, plan)
        if plan.takes_terminal:
            doing = "take its terminal"
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        doing = "set its limits"
        _set_limits(plan.limits)
        doing = f"enter the folder {plan.cwd}"
        os.chdir(plan.cwd)
        doing = f"run {plan.argv[0]}"
        os.execvpe(plan.argv[0], plan.argv, plan.env)  # noqa: S606 (no shell on purpose)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        os.write(plan.error_pipe, f"cannot {doing}: {reason}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _set_up_namespaces(plan: ExecPlan) -> None:
    """Finish the namespaces. If the warden died before PDEATHSIG was set, the control socket is closed."""
    if not plan.in_namespaces:
        return
    from blueflame.warden import namespaces as namespace

    if plan.user is not None:
        namespace.map_user(*plan.user)
        die_with_parent()  # a change of credentials may clear it
    namespace.mount_proc()
    if plan.ports is None or plan.control is None:
        return
    namespace.bring_up_loopback()
    listeners = [namespace.open_listener(port) for port in plan.ports]
    namespace.send_listeners(plan.control, listeners)
    for listener in listeners:
        listener.close()


def _move_up(handle: int) -> int:
    try:
        return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, MIN_MOVED_FD)
    except OSError as e:
        if e.errno == errno.EINVAL:  # the number is above the limit on open files
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from e
        raise


def _arrange_files(files: dict[int, int], plan: ExecPlan) -> None:
    """Move each open file to its number and close all others: an inherited descriptor is a hole."""
    moved = {number: _move_up(handle) for number, handle in files.items()}
    error_pipe = _move_up(plan.error_pipe)
    for number, handle in moved.items():
        os.dup2(handle, number)
    plan.error_pipe = os.dup2(error_pipe, ERROR_FD, inheritable=False)
    for handle in list_open_files():
        if handle not in files and handle != ERROR_FD:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(handle)


def _set_limits(limits: dict[int, int]) -> None:
    for limit, value in limits.items():
        _, hard = resource.getrlimit(limit)
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # at the hard limit of CPU time the kernel sends KILL, which says nothing; a second before it sends XCPU
        most = ceiling + 1 if limit == resource.RLIMIT_CPU and ceiling != hard else ceiling
        resource.setrlimit(limit, (ceiling, most))
