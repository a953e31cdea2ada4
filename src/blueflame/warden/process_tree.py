"""Find the processes of an attempt, and signal them.

The living warden is the subreaper of everything the agent starts: a process that leaves by setsid or a double fork is
still its descendant. After a warden was killed, its processes are found by evidence, never by a bare pid: the recorded
(pid, start time, boot), the cookie in their environment, or our log files as their output.

Without /proc (macOS) only process groups are known; the sandbox has to contain the rest there.
"""

# ruff: noqa: PTH115, PTH208 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import contextmanager, suppress

from blueflame.system.fd import read_file
from blueflame.system.proc import is_stopped, is_zombie, read_boot_id, read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

COOKIE_VARIABLE = "BLUEFLAME_COOKIE"
LINUX = sys.platform == "linux"
WRAPPERS = 2  # processes of bubblewrap above the program
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37
_LIBC = ctypes.CDLL(None, use_errno=True) if LINUX else None


def adopt_orphans() -> None:
    """Become the subreaper: orphaned descendants become our children, in whatever session they are."""
    if _LIBC is not None and _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become subreaper")


@contextmanager
def suspend_subreaper() -> Iterator[None]:
    """Stop adopting orphans within the block."""
    if _LIBC is None:
        yield
        return
    adopts = ctypes.c_int()
    _LIBC.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        yield
    finally:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, adopts.value, 0, 0, 0)


def die_with_parent() -> None:
    """In the child: die when the warden is killed. Without it, crash tests gave agents that ran twice."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class ProcessInfo:
    """A process as /proc shows it; its start time (clock ticks since boot) distinguishes it from a reused pid."""

    __slots__ = ("group", "pages", "parent", "pid", "start_time", "threads")

    def __init__(self, pid: int, stat: list[bytes]) -> None:
        self.pid = pid
        self.parent = int(stat[1])
        self.group = int(stat[2])
        self.threads = int(stat[17])
        self.start_time = int(stat[19])
        self.pages = int(stat[21])  # resident memory, shared pages included


def read_process(pid: int) -> ProcessInfo | None:
    """Return None if there is no such process, or only its zombie."""
    try:
        stat = read_stat(pid)
    except OSError:
        return None
    return None if is_zombie(stat) else ProcessInfo(pid, stat)


def list_processes() -> list[ProcessInfo]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    seen = (read_process(int(name)) for name in names if name.isdigit())
    return [member for member in seen if member is not None]


def list_descendants(roots: set[int]) -> list[ProcessInfo]:
    """List everything below the roots (without them), lowest pid first."""
    return _select_descendants(roots, list_processes())


def is_program_stopped(leader: int, *, sandboxed: bool) -> bool:
    """Whether the program, or what bubblewrap needs to run it, is stopped; the processes that it started do not count.

    In a sandbox the program is the first child of the first child of the leader.
    """
    known, line = list_processes(), [leader]
    while sandboxed and len(line) <= WRAPPERS:
        children = [member for member in known if member.parent == line[-1]]
        if not children:
            break
        line.append(min(children, key=lambda member: (member.start_time, member.pid)).pid)
    try:
        return any(is_stopped(read_stat(pid)) for pid in line)
    except OSError:
        return False


def _select_descendants(roots: set[int], processes: list[ProcessInfo]) -> list[ProcessInfo]:
    children: dict[int, list[ProcessInfo]] = {}
    for member in processes:
        children.setdefault(member.parent, []).append(member)
    found: dict[int, ProcessInfo] = {}
    front = list(roots)
    while front:
        for member in children.get(front.pop(), ()):
            if member.pid not in found and member.pid not in roots:
                found[member.pid] = member
                front.append(member.pid)
    return [found[pid] for pid in sorted(found)]


def find_orphans(
    *, agent: tuple[int, int, str], cookie: str, spools: tuple[str, ...], grouped: AbstractSet[int] = frozenset()
) -> list[ProcessInfo]:
    """Find what a dead warden left: processes with evidence that they are of this attempt, and everything below them.

    `grouped` are the members of the attempt's control group, if it had one.
    """
    me = os.getpid()
    processes = [member for member in list_processes() if member.pid != me]
    ours = [
        member
        for member in processes
        if member.pid in grouped or _has_identity(member, agent) or _has_evidence(member.pid, cookie, spools)
    ]
    known = {member.pid: member for member in ours}
    for member in _select_descendants(set(known), processes):
        known[member.pid] = member
    return [known[pid] for pid in sorted(known)]


def is_running(identity: tuple[int, int, str]) -> bool:
    """Whether there is the process with this pid, start time and boot."""
    found = read_process(identity[0])
    return found is not None and _has_identity(found, identity)


def _has_identity(member: ProcessInfo, identity: tuple[int, int, str]) -> bool:
    return (member.pid, member.start_time) == identity[:2] and identity[2] == read_boot_id()


def _has_evidence(pid: int, cookie: str, spools: tuple[str, ...]) -> bool:
    return _has_cookie(pid, cookie) or any(_writes_to(pid, handle, spools) for handle in (1, 2))


def _has_cookie(pid: int, cookie: str) -> bool:
    if not cookie:
        return False
    try:
        environment = read_file(f"/proc/{pid}/environ")
    except OSError:  # gone, or owned by another user
        return False
    return f"{COOKIE_VARIABLE}={cookie}".encode() in environment.split(b"\0")


def _writes_to(pid: int, handle: int, spools: tuple[str, ...]) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{handle}") in spools
    except OSError:
        return False


def signal_process(member: ProcessInfo, number: signal.Signals) -> None:
    """Signal this process only, not a later one with the same pid."""
    try:
        handle = os.pidfd_open(member.pid) if LINUX else -1
    except OSError:
        return
    try:
        now = read_process(member.pid)
        if now is not None and now.start_time == member.start_time and handle >= 0:
            signal.pidfd_send_signal(handle, number)
    except OSError:  # ended meanwhile, or not permitted
        pass
    finally:
        if handle >= 0:
            os.close(handle)


def signal_processes(members: list[ProcessInfo], number: signal.Signals) -> None:
    for member in members:
        signal_process(member, number)


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal a group in one call, which no fork can escape; its leader is a child that only we can reap."""
    with suppress(OSError):  # gone, or only zombies left (EPERM on macOS)
        os.killpg(group, number)


def signal_groups(members: list[ProcessInfo], number: signal.Signals) -> None:
    """Signal whole groups: a fork bomb outruns single signals."""
    mine = os.getpgrp()
    for group in sorted({member.group for member in members} - {0, 1, mine}):
        signal_group(group, number)
