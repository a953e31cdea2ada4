"""End what an earlier warden that died left running, before a new attempt starts."""

from __future__ import annotations

import os
import signal
import time

from blueflame.system.fd import wait_for_lock
from blueflame.warden.attempt_folder import read_json_or_empty
from blueflame.warden.cgroup import find_leftover_cgroups, list_members, remove_cgroups
from blueflame.warden.process_tree import ProcessInfo, find_orphans, is_running, signal_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.poll_loop import PollLoop

EXIT_TIMEOUT = 1.0  # a process that is killed loses its locks a moment before it is gone
KILL_TIMEOUT = 10.0
USAGE_LOG_TIMEOUT = 3.0


def end_orphans(folder: str, grace: float, poll_loop: PollLoop) -> tuple[int, list[int]]:
    """Send TERM, wait, send KILL. Return how many were found, and the pids that are still alive."""
    agent = _read_identity(f"{folder}/agent.json")
    cookie = str(read_json_or_empty(f"{folder}/started").get("cookie", ""))
    spools = (f"{folder}/stdout.log", f"{folder}/stderr.log", f"{folder}/setup.log")
    groups = find_leftover_cgroups(folder)

    def left() -> list[ProcessInfo]:
        return find_orphans(agent=agent, cookie=cookie, spools=spools, grouped=list_members(groups))

    found = left()
    signal_processes(found, signal.SIGTERM)
    signal_processes(found, signal.SIGCONT)
    began = time.monotonic()
    alive = found
    while alive and time.monotonic() < began + grace + KILL_TIMEOUT:
        poll_loop.wait(0.05)  # not our children: no SIGCHLD when they end
        alive = left()
        if time.monotonic() >= began + grace:
            signal_processes(alive, signal.SIGKILL)
    remove_cgroups(groups)
    _wait_for_usage_log(folder)
    return len(found), [member.pid for member in alive]


def _wait_for_usage_log(folder: str) -> None:
    """Wait for the dead warden's gateway, which locks its log until it has recorded the last call."""
    try:
        handle = os.open(f"{folder}/usage.jsonl", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    wait_for_lock(handle, USAGE_LOG_TIMEOUT)
    os.close(handle)


def is_copy(folder: str, poll_loop: PollLoop) -> bool:
    """Whether the warden that was started is alive: it holds the lock of its own folder, so this is another one."""
    warden = _read_identity(f"{folder}/started")
    give_up = time.monotonic() + EXIT_TIMEOUT
    while is_running(warden):
        if time.monotonic() > give_up:
            return True
        poll_loop.wait(0.05)
    return False


def _read_identity(path: str) -> tuple[int, int, str]:
    read = read_json_or_empty(path)
    try:
        return int(read["pid"]), int(read["start_time"]), str(read["boot_id"])
    except (KeyError, ValueError, TypeError):  # the warden died before it was written, or is of an earlier version
        return -1, -1, ""
