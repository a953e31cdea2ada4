"""Check how much memory, how many processes and how little free disk an attempt causes.

Where the kernel limits memory and processes (a control group, or a user limit), these checks only name the limit that
was hit. Elsewhere they are the limit: the process tree is checked every quarter of a second. Memory is first taken as
the sum of resident sets; only above the limit are shared pages divided among their sharers, which is slower.
"""

# ruff: noqa: PTH123 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import os
import resource
import signal
import time

from blueflame.system.disk import measure_free_disk
from blueflame.warden.process_tree import list_descendants, read_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from blueflame.warden.cgroup import Cgroup
    from blueflame.warden.launch_file import LaunchFile

CHECK_SECONDS = 0.25
PAUSE_FACTOR = 20  # a slow check is repeated less often: at most 5 % of one processor
MB = 1024 * 1024
SHELL_SIGNAL_BASE = 128  # a shell whose command died of signal n exits with 128+n
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResourceMonitor:
    def __init__(self, launch: LaunchFile, group: Cgroup | None) -> None:
        self._launch = launch
        self._next_look = 0.0
        self.group = group

    def find_violation(self) -> tuple[str, str] | None:
        """Return reason and figures of a limit that is exceeded; check at most every quarter of a second."""
        began = time.monotonic()
        if began < self._next_look:
            return None
        why = self.check_disk() or self.check_oom_kills() or self._check_processes() or self._check_memory()
        now = time.monotonic()
        self._next_look = now + max(CHECK_SECONDS, PAUSE_FACTOR * (now - began))
        return why

    def check_disk(self) -> tuple[str, str] | None:
        needed = self._launch.min_free_disk_mb
        free = read_free_mb(self._launch.cwd) if needed else None
        if free is None or free >= needed:
            return None
        state = f"only {free} MB are free on the disk of {self._launch.cwd}, and {needed} MB must stay free"
        return "disk", f"{state}; free space, or lower sandbox.min_free_disk_mb"

    def check_oom_kills(self) -> tuple[str, str] | None:
        killed = self.group.count_oom_kills() if self.group is not None else 0
        if not killed:
            return None
        cause = f"the system killed {killed} of its processes"
        return "memory", f"memory limit {self._launch.memory_mb} MB reached: {cause}; raise sandbox.max_memory_mb"

    def explain_failure(self, exit_code: int | None, number: int | None) -> str:
        """Name the limit that a program which failed by itself has reached; "" if none is known."""
        number = number if exit_code is None else exit_code - SHELL_SIGNAL_BASE
        refused = self.group.count_refused_forks() if self.group is not None else 0
        if refused and (allowed := self._launch.processes):
            return f"process limit {allowed} reached: {refused} could not be started; raise sandbox.max_processes"
        return explain_signal(number, self._launch.limits)

    def _check_processes(self) -> tuple[str, str] | None:
        allowed = self._launch.processes
        if not allowed:
            return None
        counted = self.group.count_processes() if self.group is not None and self.group.has_process_limit else None
        found = counted if counted is not None else sum(member.threads for member in list_descendants({os.getpid()}))
        if found <= allowed:
            return None
        cause = f"it had {found} processes and threads at once, more than the {allowed} allowed"
        return "processes", f"process limit {allowed} reached: {cause}; raise sandbox.max_processes"

    def _check_memory(self) -> tuple[str, str] | None:
        allowed = self._launch.memory_mb * MB
        if not allowed or (self.group is not None and self.group.has_memory_limit):
            return None
        tree = list_descendants({os.getpid()})
        used = sum(member.pages for member in tree) * PAGE_BYTES
        if used > allowed:
            used = min(used, sum(_read_proportional_memory(member.pid) for member in tree))
        used += _measure_memfds({member.pid for member in tree}, enough=allowed - used)
        if used <= allowed:
            return None
        cause = f"it used {used // MB} MB of memory"
        return "memory", f"memory limit {allowed // MB} MB reached: {cause}; raise sandbox.max_memory_mb"


def explain_signal(number: int | None, limits: Mapping[int, int]) -> str:
    """Name the limit that the kernel enforces by a signal; "" for any other."""
    if number == signal.SIGXFSZ and resource.RLIMIT_FSIZE in limits:
        size = limits[resource.RLIMIT_FSIZE] // MB
        return f"file size limit {size} MB reached: it wrote a larger file; raise sandbox.max_file_size_mb"
    if number == signal.SIGXCPU and resource.RLIMIT_CPU in limits:
        seconds = limits[resource.RLIMIT_CPU]
        return f"CPU limit {seconds} s reached: one process used more; raise sandbox.max_cpu_seconds"
    return ""


def read_free_mb(path: str) -> int | None:
    """Return what an ordinary user may still write there; None if unknown."""
    free = measure_free_disk(path)
    return None if free is None else free // MB


def _measure_memfds(pids: set[int], *, enough: int) -> int:
    """Sum the files that exist only as open handles (memfd): they are in no process's memory figures."""
    seen: dict[tuple[int, int], int] = {}
    for pid in pids if enough > 0 else ():
        try:
            handles = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 (as above)
        except OSError:
            continue
        for handle in handles:
            try:
                if os.readlink(f"/proc/{pid}/fd/{handle}").startswith("/memfd:"):  # noqa: PTH115 (as above)
                    about = os.stat(f"/proc/{pid}/fd/{handle}")  # noqa: PTH116 (as above)
                    seen[about.st_dev, about.st_ino] = about.st_blocks * 512
            except OSError:  # closed meanwhile
                continue
    return sum(seen.values())


def _read_proportional_memory(pid: int) -> int:
    """Return bytes with shared pages divided among their sharers; resident memory if unreadable."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")), 0)
    except OSError:
        seen = read_process(pid)
        return seen.pages * PAGE_BYTES if seen is not None else 0
