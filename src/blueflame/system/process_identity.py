"""Is that process still there, and is it still the same one?

A pid alone says nothing: it is recycled, and a zombie answers to it. A process is known by pid, start time and boot.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.1  # seconds, where the kernel cannot tell us itself


class ProcessState(StrEnum):
    ALIVE = "alive"
    DEAD = "dead"  # gone, a zombie, or its pid belongs to another process now
    UNKNOWN = "unknown"  # something has the pid, but we may not look at it: treat it as alive


class ProcessIdentity(NamedTuple):
    pid: int
    start_time: float  # clock ticks since boot on Linux (deaf to clock changes), else seconds since the epoch
    boot_id: str


class _ProcessSnapshot(NamedTuple):
    start_time: float
    zombie: bool


class ProcessHidden(Exception):
    """The pid exists, but we are not allowed to look at it."""


def read_identity(pid: int) -> ProcessIdentity | None:
    """None when there is no such process, it is a zombie, or it cannot be looked at."""
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


async def wait_until_gone(pid: int, start_time: float) -> None:
    """Returns when the process is dead or a zombie; at once when its pid is another's by now."""
    known = ProcessIdentity(pid, start_time, read_boot_id())
    try:
        handle = _open_pidfd(pid)
    except ProcessLookupError:
        return
    await (_poll_until_gone(known) if handle is None else _watch_until_gone(known, handle))


def read_boot_id() -> str:
    """Differs from boot to boot. Empty where the start time is wall-clock time and needs no boot to be told apart."""
    if sys.platform == "linux":
        with suppress(OSError):
            return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


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
        # The handle is opened first: if the pid still is the one we know, the handle cannot be another's.
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
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return _check_by_signal(pid)
    except PermissionError:
        raise ProcessHidden from None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold blanks and parentheses
    return _ProcessSnapshot(float(fields[19]), fields[0] in (b"Z", b"X", b"x"))


def _check_by_signal(pid: int) -> _ProcessSnapshot | None:
    """/proc mounted with hidepid shows nothing of other users' processes: not in there is not dead."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        raise ProcessHidden from None
    return None  # it went, or came, between the two looks: either way not the one we knew


def _read_psutil_snapshot(pid: int) -> _ProcessSnapshot | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return _ProcessSnapshot(process.create_time(), process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        raise ProcessHidden from None
