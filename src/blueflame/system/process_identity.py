"""Check whether a process is still alive and still the same one.

A pid alone proves nothing: it is reused, and a zombie keeps it. A process is identified by pid, start time and boot.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from blueflame.system import proc
from blueflame.system.proc import is_zombie, read_boot_id, read_stat

POLL_SECONDS = 0.1  # where the kernel has no pidfd


class ProcessState(StrEnum):
    ALIVE = "alive"
    DEAD = "dead"  # gone, a zombie, or its pid belongs to another process now
    UNKNOWN = "unknown"  # the pid exists, but we may not read its state: treat it as alive


class ProcessIdentity(NamedTuple):
    pid: int
    start_time: float  # clock ticks since boot on Linux (independent of the clock), else seconds since the epoch
    boot_id: str


class _ProcessSnapshot(NamedTuple):
    start_time: float
    zombie: bool


class ProcessHidden(Exception):
    """The pid exists, but we may not read its state."""


def read_identity(pid: int) -> ProcessIdentity | None:
    """Return None if there is no such process, it is a zombie, or it may not be read."""
    with suppress(ProcessHidden):
        seen = _read_snapshot(pid)
        if seen is not None and not seen.zombie:
            return ProcessIdentity(pid, seen.start_time, read_boot_id())
    return None


def read_process_state(known: ProcessIdentity) -> ProcessState:
    if known.boot_id != read_boot_id():
        return ProcessState.DEAD
    try:
        seen = _read_snapshot(known.pid)
    except ProcessHidden:
        return ProcessState.UNKNOWN
    same = seen is not None and not seen.zombie and seen.start_time == known.start_time
    return ProcessState.ALIVE if same else ProcessState.DEAD


def is_stopped(pid: int) -> bool:
    """Whether the process was stopped, by SIGSTOP or by a debugger; False where that cannot be read."""
    try:
        return sys.platform == "linux" and proc.is_stopped(read_stat(pid))
    except OSError:
        return False


async def wait_until_gone(pid: int, start_time: float) -> None:
    """Return when the process is dead or a zombie; at once if its pid is reused."""
    known = ProcessIdentity(pid, start_time, read_boot_id())
    try:
        handle = _open_pidfd(pid)
    except ProcessLookupError:
        return
    await (_poll_until_gone(known) if handle is None else _watch_until_gone(known, handle))


def _open_pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # forbidden, not in this kernel, or no file descriptors left
        return None


async def _watch_until_gone(known: ProcessIdentity, handle: int) -> None:
    import asyncio  # 50 ms: most callers only ask for a pid

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        # The handle is opened first: if the pid is then still ours, so is the handle.
        if read_process_state(known) is ProcessState.DEAD:
            return
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(handle)
    finally:
        os.close(handle)


async def _poll_until_gone(known: ProcessIdentity) -> None:
    import asyncio

    while read_process_state(known) is not ProcessState.DEAD:
        await asyncio.sleep(POLL_SECONDS)


def _read_snapshot(pid: int) -> _ProcessSnapshot | None:
    if sys.platform == "linux":
        return _read_proc_snapshot(pid)
    return _read_psutil_snapshot(pid)


def _read_proc_snapshot(pid: int) -> _ProcessSnapshot | None:
    # psutil's start time goes through the wall clock, which steps; field 22 of stat counts from boot.
    try:
        stat = read_stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return _check_by_signal(pid)
    except PermissionError:
        raise ProcessHidden from None
    return _ProcessSnapshot(float(stat[19]), is_zombie(stat))


def _check_by_signal(pid: int) -> _ProcessSnapshot | None:
    """Check with a signal: /proc mounted with hidepid does not show other users' processes."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        raise ProcessHidden from None
    return None  # it ended, or started, between the two checks: not the one we know


def _read_psutil_snapshot(pid: int) -> _ProcessSnapshot | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return _ProcessSnapshot(process.create_time(), process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        raise ProcessHidden from None
