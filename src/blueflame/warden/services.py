"""What stands around an attempt while it runs: limits, the watcher that answers the hook, the gateway to the world.

Whatever was asked for and cannot be had stops the start: an agent without its walls does not run.

The two guards are modules of their own, imported only when asked for:
- `HookServer(watch, listener, attempt, bell)` answers the hook's questions from within `bell.wait` (see `Bell.serve`)
  and owns the listener; `close()` gives what is to be recorded of it.
- `start(folder, settings, secrets)` starts a process that is not below us, which ending the agent does not end;
  `give(listener)` hands it a door, once for every setup step and once for the agent; it ends with its control socket.
Both have a `problem`: "" while they do their duty, else what is wrong, and then the attempt is ended as unwatched.
"""

# ruff: noqa: PTH119 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import os

from blueflame.warden.launch_file import CannotStart
from blueflame.warden.spawn import PROCESS_HEADROOM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from blueflame.warden.cgroup import Cgroup
    from blueflame.warden.gateway_process import GatewayProcess
    from blueflame.warden.spawn import ChildProcess
    from blueflame.warden.supervise import SupervisedAttempt


def start_services(ward: SupervisedAttempt) -> tuple[str, str] | None:
    """Before anything runs, and before we adopt orphans, of which the gateway is one.

    Gives the reason and the detail when the machine has no room for the attempt.
    """
    launch = ward.launch
    if launch.memory_mb or launch.processes or launch.min_free_disk_mb:
        from blueflame.warden.resource_limits import ResourceMonitor

        ward.pressure = ResourceMonitor(launch, None)
        short = ward.pressure.too_little_disk()
        if short is not None:
            return short
        ward.pressure.group = _create_cgroup(ward)
    if launch.gateway is not None:
        _start_gateway(ward, launch.gateway)
    return None


def _create_cgroup(ward: SupervisedAttempt) -> Cgroup | None:
    launch = ward.launch
    if not launch.memory_mb and not launch.processes:
        return None
    from blueflame.warden import cgroup

    processes = launch.processes + PROCESS_HEADROOM if launch.processes else 0
    return cgroup.create_cgroup(
        os.path.basename(ward.folder), memory_mb=launch.memory_mb, processes=processes, folder=ward.folder
    )


def _start_gateway(ward: SupervisedAttempt, settings: dict[str, Any]) -> None:
    try:
        from blueflame.warden.gateway_process import start_gateway
        from blueflame.warden.secrets import read_secrets

        ward.gateway = start_gateway(ward.folder, settings, read_secrets() if settings.get("model") else None)
    except (ImportError, OSError, ValueError) as e:
        raise CannotStart(f"the gateway cannot be started, so the agent was not: {e}") from e
    _watch_gateway(ward, ward.gateway)


def _watch_gateway(ward: SupervisedAttempt, gateway: GatewayProcess) -> None:
    """It says when its agent must wait, and when nothing more is answered."""
    handle = gateway.handle

    def hear() -> None:
        gateway.hear()
        if gateway.problem:
            ward.bell.forget(handle)

    ward.bell.serve(handle, hear)


def admit_child(ward: SupervisedAttempt, child: ChildProcess) -> None:
    """The child waits before its program: put it into its group, and answer at its doors from now on."""
    if ward.pressure is not None and ward.pressure.group is not None:
        ward.pressure.group.take(child.pid)
    if "gateway" in child.doors and ward.gateway is not None:
        ward.gateway.give(child.doors["gateway"])
    if "hook" in child.doors:
        _start_hook_server(ward, child)


def _start_hook_server(ward: SupervisedAttempt, child: ChildProcess) -> None:
    try:
        from blueflame.watcher.server import HookServer

        ward.asker = HookServer(ward.launch.watch or {}, child.doors["hook"], ward.launch.attempt, ward.bell)
    except (ImportError, OSError, ValueError) as e:
        raise CannotStart(f"the watcher cannot be started, so the agent was not: {e}") from e
    if ward.asker.problem:
        raise CannotStart(f"the watcher cannot do its duty, so the agent was not started: {ward.asker.problem}")


def stop_services(ward: SupervisedAttempt) -> dict[str, Any]:
    """After the last process has gone. Gives what there is to record of them."""
    recorded: dict[str, Any] = {}
    if ward.asker is not None:
        recorded["watch"] = dict(ward.asker.close())
    if ward.gateway is not None:
        ward.bell.forget(ward.gateway.handle)
        ward.gateway.close()
        ward.status.parked = {}
    if ward.pressure is not None and ward.pressure.group is not None:
        ward.pressure.group.remove()
    return recorded
