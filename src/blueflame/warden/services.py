"""Start and stop what surrounds an attempt: resource limits, the hook server, the gateway process.

If a requested service cannot be started, the agent is not started either.

The two services are modules that are imported only when needed:
- `HookServer(watch, listener, attempt, poll_loop)` answers the hook from within `poll_loop.wait` and owns the
  listener; `close()` returns what to record.
- `start_gateway(folder, settings, secrets)` starts a process that is not a descendant of the warden;
  `add_listener(listener)` gives it a listener, one for each setup step and one for the agent; it ends with its
  control socket.
Both have a `problem`: "" while they work, else the reason why not; the attempt then ends as unwatched.
"""

# ruff: noqa: PTH119 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import json
import os
import select
import time

from blueflame.warden.attempt_folder import touch_file, write_json
from blueflame.warden.launch_file import CannotStart
from blueflame.warden.spawn import PROCESS_HEADROOM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from blueflame.warden.cgroup import Cgroup
    from blueflame.warden.gateway_process import GatewayProcess
    from blueflame.warden.spawn import ChildProcess
    from blueflame.warden.supervise import SupervisedAttempt
    from blueflame.watcher.ask_tool import AskTool


def start_services(attempt: SupervisedAttempt) -> tuple[str, str] | None:
    """Start them before anything runs, and before orphans are adopted, since the gateway is one.

    Return reason and detail if the machine has too few resources for the attempt.
    """
    launch = attempt.launch
    if launch.memory_mb or launch.processes or launch.min_free_disk_mb:
        from blueflame.warden.resource_limits import ResourceMonitor

        attempt.monitor = ResourceMonitor(launch, None)
        short = attempt.monitor.check_disk()
        if short is not None:
            return short
        attempt.monitor.group = _create_cgroup(attempt)
    if launch.gateway is not None:
        _start_gateway(attempt, launch.gateway)
    return None


def _create_cgroup(attempt: SupervisedAttempt) -> Cgroup | None:
    launch = attempt.launch
    if not launch.memory_mb and not launch.processes:
        return None
    from blueflame.warden import cgroup

    processes = launch.processes + PROCESS_HEADROOM if launch.processes else 0
    return cgroup.create_cgroup(
        os.path.basename(attempt.folder), memory_mb=launch.memory_mb, processes=processes, folder=attempt.folder
    )


def _start_gateway(attempt: SupervisedAttempt, settings: dict[str, Any]) -> None:
    try:
        from blueflame.warden.gateway_process import start_gateway

        attempt.gateway = start_gateway(attempt.folder, settings, read_secrets() if settings.get("model") else None)
    except (ImportError, OSError, ValueError) as e:
        raise CannotStart(f"the agent was not started: the gateway cannot be started: {e}") from e
    _watch_gateway(attempt, attempt.gateway)


def _watch_gateway(attempt: SupervisedAttempt, gateway: GatewayProcess) -> None:
    """Read the gateway's messages when they arrive: it reports when its agent waits or is refused."""
    handle = gateway.handle

    def handle_messages() -> None:
        gateway.read_messages()
        if gateway.problem:
            attempt.poll_loop.unregister(handle)

    attempt.poll_loop.register(handle, handle_messages)


def admit_child(attempt: SupervisedAttempt, child: ChildProcess, *, setup: bool = False) -> None:
    """While the child waits for its start: put it into its group, and serve its listeners."""
    if attempt.monitor is not None and attempt.monitor.group is not None:
        attempt.monitor.group.add_process(child.pid)
    if "gateway" in child.listeners and attempt.gateway is not None:
        setup = setup or bool((attempt.launch.gateway or {}).get("setup"))
        attempt.gateway.add_listener(child.listeners["gateway"], setup=setup)
    if "hook" in child.listeners:
        _start_hook_server(attempt, child)


def _start_hook_server(attempt: SupervisedAttempt, child: ChildProcess) -> None:
    try:
        from blueflame.watcher.server import HookServer

        watch, name = attempt.launch.watch or {}, attempt.launch.attempt
        tool = _build_ask_tool(attempt, watch["questions"]) if "questions" in watch else None
        attempt.hook_server = HookServer(watch, child.listeners["hook"], name, attempt.poll_loop, ask_tool=tool)
    except (ImportError, OSError, ValueError) as e:
        raise CannotStart(f"the agent was not started: the watcher cannot be started: {e}") from e
    if attempt.hook_server.problem:
        raise CannotStart(f"the agent was not started: the watcher does not work: {attempt.hook_server.problem}")


def _build_ask_tool(attempt: SupervisedAttempt, limits: Mapping[str, Any]) -> AskTool:
    from blueflame.watcher.ask_tool import AskTool

    asked: list[Mapping[str, Any]] = []

    def record(question: Mapping[str, Any]) -> None:
        asked.append(question)
        write_json(f"{attempt.folder}/questions", {"asked": asked})
        touch_file(attempt.launch.signal)

    return AskTool(limits["left"], limits["wait"], record)


def stop_services(attempt: SupervisedAttempt) -> dict[str, Any]:
    """Stop them after the last process has ended. Return what to record."""
    recorded: dict[str, Any] = {}
    if attempt.hook_server is not None:
        recorded["watch"] = dict(attempt.hook_server.close())
    if attempt.gateway is not None:
        attempt.poll_loop.unregister(attempt.gateway.handle)
        attempt.gateway.close()
        attempt.status.parked = {}
    if attempt.monitor is not None and attempt.monitor.group is not None:
        attempt.monitor.group.remove()
    return recorded


MAX_BYTES = 1 << 20
READ_TIMEOUT = 10.0


def read_secrets(handle: int = 0) -> dict[str, str]:
    """Read the gateway's credentials, one JSON object, from stdin; nothing is on disk, in the environment or in argv.

    An engine that died closes the pipe. Raise ValueError for anything else, without its content.
    """
    data = _read_pipe(handle)
    if not data.strip():
        return {}
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("stdin holds no JSON object of strings")
    return found


def _read_pipe(handle: int) -> bytes:
    parts: list[bytes] = []
    try:
        if os.isatty(handle):
            return b""
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        give_up = time.monotonic() + READ_TIMEOUT
        while sum(map(len, parts)) < MAX_BYTES and poll.poll(max(0.0, give_up - time.monotonic()) * 1000):
            part = os.read(handle, 65536)
            if not part:
                break
            parts.append(part)
    except OSError:  # stdin is closed
        return b""
    return b"".join(parts)
