"""Start a program: directly, behind the entry script, or in a sandbox.

The child waits until the warden has recorded its identity, so that a later warden can find every agent. Behind the
entry script it waits again, inside the sandbox, until the warden has seen that everything works (entry_script.py).
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from contextlib import suppress

from blueflame.system.fd import read_to_end
from blueflame.warden.entry_script import GO, PASSED, READY, build_entry_command
from blueflame.warden.exec_child import ExecPlan, exec_program
from blueflame.warden.launch_file import CannotStart
from blueflame.warden.process_tree import COOKIE_VARIABLE, LINUX

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from blueflame.warden.launch_file import LaunchFile

READY_TIMEOUT = 30.0
POLL_SECONDS = 0.1  # seconds between two checks while waiting for the sandbox
PROCESS_HEADROOM = 16  # processes above the limit before the kernel refuses: in between, the warden reports the limit


class ChildProcess:
    """A started program. `pid` is the sandbox's process, or the program's without a sandbox.

    `listeners` are the sockets that the program reaches at 127.0.0.1: "hook" and "gateway", if requested.
    """

    def __init__(
        self, pid: int, *, sandboxed: bool, control: socket.socket | None, listeners: dict[str, socket.socket]
    ) -> None:
        self.pid = pid
        self.sandboxed = sandboxed
        self.control = control
        self.listeners = listeners
        self._received = b""

    def has_passed_canary(self) -> bool:
        if self.control is not None:
            with suppress(OSError):
                self.control.setblocking(False)
                self._received += self.control.recv(64)
        return self._received == PASSED

    def close(self) -> None:
        if self.control is not None:
            self.control.close()


def start_program(
    argv: list[str],
    launch: LaunchFile,
    *,
    stdin: str | int,
    output: tuple[int, int],
    cookie: str = "",
    watched: bool = False,
    terminal: bool = False,
    agent: bool = False,
    admit: Callable[[ChildProcess], object] = lambda _child: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> ChildProcess:
    """Start `argv` in a new session and return when it is about to run.

    `admit(child)` is called before anything of it runs; `watched` adds the canary and the hook's listener; `terminal`:
    `stdin` is one and becomes its own; an `agent` reaches its model at the gateway's port; the start is abandoned when
    `is_cancelled()` returns True. Raise CannotStart, and then nothing of it runs. The caller must have one thread only,
    and must outlive the program.
    """
    names = [name for name, wanted in (("hook", watched), ("gateway", launch.gateway)) if wanted]
    inner = launch.sandbox is not None and launch.sandbox.net == "doors"
    model = launch.gateway if agent and launch.gateway is not None and launch.gateway.get("model") else None
    listeners = {} if inner else _open_outer_listeners(names, {"gateway": int(model["port"])} if model else {})
    plan = ExecPlan(_build_command(argv, launch, watched=watched, terminal=terminal), {}, launch.cwd, stdin, output)
    plan.takes_terminal = terminal and launch.sandbox is None
    plan.env = _build_environment(launch, cookie, names, listeners)
    plan.limits = dict(launch.limits)
    mine = _prepare_sandbox(plan, launch, names) if launch.sandbox is not None or watched else None
    child, opener, errors = _fork_child(plan, mine, listeners, sandboxed=launch.sandbox is not None)
    try:
        if inner and mine is not None:
            child.listeners = _receive_inner_listeners(mine, names, errors)
        admit(child)
        _release_child(opener)
    except OSError as e:
        _kill_child(child)
        raise CannotStart(f"the agent was not started: its identity cannot be recorded: {e}") from e
    except CannotStart:
        _kill_child(child)
        raise
    finally:
        os.close(opener)
        problem = read_to_end(errors)
        os.close(errors)
    if problem:
        _kill_child(child)
        raise CannotStart(problem.decode("utf-8", "replace"))
    if mine is not None:
        _send_go(child, mine, is_cancelled)
    return child


def _build_command(argv: list[str], launch: LaunchFile, *, watched: bool, terminal: bool) -> list[str]:
    if launch.sandbox is None and not watched:
        return argv
    hook = str(launch.watch["hook"]) if watched and launch.watch is not None else ""
    sandbox = launch.sandbox.argv if launch.sandbox is not None else ()
    return [*sandbox, *build_entry_command(argv, hook, terminal=terminal and bool(sandbox))]


def _open_outer_listeners(names: list[str], ports: dict[str, int]) -> dict[str, socket.socket]:
    """Listen on the machine's loopback, on free ports unless a port is given."""
    if not names:
        return {}
    from blueflame.warden.namespaces import open_listener

    try:
        return {name: open_listener(ports.get(name, 0)) for name in names}
    except OSError as e:
        raise CannotStart(f"cannot listen on 127.0.0.1 for the agent's {' and '.join(names)}: {e.strerror}") from e


def _build_environment(
    launch: LaunchFile, cookie: str, names: list[str], listeners: dict[str, socket.socket]
) -> dict[str, str]:
    env = dict(launch.env)
    if cookie:
        env[COOKIE_VARIABLE] = cookie
    if launch.attempt:
        env["BLUEFLAME_ATTEMPT"] = launch.attempt
    if "hook" in names:
        env["BLUEFLAME_HOOK_PORT"] = str(_find_port("hook", launch, listeners))
    if "gateway" in names:
        env |= _build_proxy_variables(_find_port("gateway", launch, listeners), env)
    return env


def _find_port(name: str, launch: LaunchFile, listeners: dict[str, socket.socket]) -> int:
    if name in listeners:
        return int(listeners[name].getsockname()[1])
    settings = launch.watch if name == "hook" else launch.gateway
    return int(settings["port"]) if settings is not None else 0


def _build_proxy_variables(port: int, env: dict[str, str]) -> dict[str, str]:
    proxy, direct = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    names = {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    flags = " ".join(f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={port}" for scheme in ("http", "https"))
    # Java reads none of these
    java = {name: f"{env.get(name, '')} {flags}".strip() for name in ("MAVEN_OPTS", "GRADLE_OPTS")}
    lower = {name.lower(): value for name, value in names.items()}
    return {"BLUEFLAME_GATEWAY_PORT": str(port), **names, **lower, **java}


def _prepare_sandbox(plan: ExecPlan, launch: LaunchFile, names: list[str]) -> socket.socket:
    """Return the warden's end of the control socket."""
    import socket

    mine, plan.control = socket.socketpair()
    if launch.sandbox is None:
        return mine
    plan.seccomp = launch.sandbox.seccomp
    if launch.sandbox.net == "doors":
        settings = {"hook": launch.watch, "gateway": launch.gateway}
        plan.ports = [int((settings[name] or {})["port"]) for name in names]
    plan.in_namespaces = LINUX
    if launch.processes and os.geteuid() != 0:  # in a user namespace, the kernel counts those of the sandbox only
        wanted = launch.processes + PROCESS_HEADROOM
        plan.limits[resource.RLIMIT_NPROC] = min(wanted, plan.limits.get(resource.RLIMIT_NPROC, wanted))
    return mine


def _fork_child(
    plan: ExecPlan, mine: socket.socket | None, listeners: dict[str, socket.socket], *, sandboxed: bool
) -> tuple[ChildProcess, int, int]:
    try:
        plan.start_pipe, opener = os.pipe()
        errors, plan.error_pipe = os.pipe()
        pid = _fork_into_namespaces(plan) if plan.in_namespaces else os.fork()
    except OSError as e:
        hint = " (are user namespaces disabled?)" if plan.in_namespaces else ""
        raise CannotStart(f"cannot make a process for {plan.argv[0]}: {e.strerror}{hint}") from e
    if pid == 0:
        os.close(opener)  # else the child would wait for ever after the warden's death, here and below
        if mine is not None:
            mine.close()
        exec_program(plan)
    os.close(plan.start_pipe)
    os.close(plan.error_pipe)
    if plan.control is not None:
        plan.control.close()
    return ChildProcess(pid, sandboxed=sandboxed, control=mine, listeners=listeners), opener, errors


def _fork_into_namespaces(plan: ExecPlan) -> int:
    from blueflame.warden.namespaces import fork_into_namespaces

    user = os.geteuid(), os.getegid()
    pid, is_new_user = fork_into_namespaces(net=plan.ports is not None)
    plan.user = user if is_new_user else None
    return pid


def _receive_inner_listeners(line: socket.socket, names: list[str], errors: int) -> dict[str, socket.socket]:
    from blueflame.warden.namespaces import receive_listeners

    listeners = receive_listeners(line, len(names))
    if listeners is None:
        message = os.read(errors, 4096).decode("utf-8", "replace")
        raise CannotStart(message or "the process that sets up the agent's network ended")
    return dict(zip(names, listeners, strict=True))


def _release_child(opener: int) -> None:
    with suppress(BrokenPipeError):  # it died before it ran; its exit is reported
        os.write(opener, b"g")


def _send_go(child: ChildProcess, line: socket.socket, is_cancelled: Callable[[], bool]) -> None:
    """Send "go" when the entry script is ready and bubblewrap is alive: from then on both die together."""
    try:
        _wait_until_ready(child, line, is_cancelled)
        _check_alive(child)
    except (CannotStart, OSError) as e:
        _kill_child(child)
        raise CannotStart(str(e)) from e
    with suppress(OSError):  # it died meanwhile; its exit is reported
        line.send(GO)


def _wait_until_ready(child: ChildProcess, line: socket.socket, is_cancelled: Callable[[], bool]) -> None:
    received = b""
    give_up = time.monotonic() + READY_TIMEOUT
    poll = select.poll()
    poll.register(line, select.POLLIN)
    while received != READY:
        if poll.poll(POLL_SECONDS * 1000):
            part = line.recv(64)
            received += part
            if not part or not READY.startswith(received):
                _check_alive(child, patience=1.0)
                raise CannotStart("unexpected answer from the entry script")
        _check_alive(child)
        if is_cancelled():
            raise CannotStart("it was cancelled before it ran")
        if time.monotonic() > give_up:
            raise CannotStart(f"it was not ready to run within {READY_TIMEOUT:g} seconds")


def _check_alive(child: ChildProcess, patience: float = 0.0) -> None:
    give_up = time.monotonic() + patience
    while True:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            child.pid = -1  # reaped: the number may be reused
            what = "the sandbox" if child.sandboxed else "its shell"
            raise CannotStart(f"{what} ended before the program could run ({_format_exit(status)})")
        if time.monotonic() >= give_up:
            return
        time.sleep(0.005)


def _format_exit(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"by signal {os.WTERMSIG(status)}"
    return f"with exit code {os.WEXITSTATUS(status)}"


def _kill_child(child: ChildProcess) -> None:
    """Close the control socket, so that the entry script exits, and kill the sandbox."""
    child.close()
    for listener in child.listeners.values():
        listener.close()
    if child.pid > 0:
        with suppress(OSError):
            os.kill(child.pid, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(child.pid, 0)
