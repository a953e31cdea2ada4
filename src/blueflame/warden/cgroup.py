"""Create a control group for each attempt: the kernel then limits memory and processes, where that is available.

Version 2 needs a delegated parent (as systemd gives to user services), version 1 needs root. A group is created next
to or below our own, never above it: limits that hold for us still hold for the agent. Its paths are written to the
attempt's folder first, so that a later warden can remove what a killed one left.
"""

# ruff: noqa: PTH102, PTH106, PTH110, PTH116, PTH119, PTH120, PTH208 (pathlib costs 10 ms)
from __future__ import annotations

import os
import signal
import time
from binascii import crc32
from contextlib import suppress

from blueflame.system.fd import read_file, write_file
from blueflame.warden.attempt_folder import read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS_FILE = "groups.json"
GROUP_PREFIX = "blueflame-"
MEMORY, PIDS = "memory", "pids"
MB = 1024 * 1024
REMOVE_TIMEOUT = 2.0
LIMIT_FILES = {
    (1, MEMORY): "memory.limit_in_bytes",
    (2, MEMORY): "memory.max",
    (1, PIDS): "pids.max",
    (2, PIDS): "pids.max",
}
OOM_FILES = ("memory.oom_control", "memory.events")  # of version 1, of version 2


class CgroupParent:
    """A folder of the cgroup file system in which a group with these controllers can be created."""

    def __init__(self, path: str, version: int, controllers: tuple[str, ...]) -> None:
        self.path = path
        self.version = version
        self.controllers = controllers


class Cgroup:
    """The groups of one attempt: one in version 2, one for each controller in version 1."""

    def __init__(self, paths: tuple[str, ...], *, memory_path: str, pids_path: str) -> None:
        self.paths = paths
        self._memory_path = memory_path
        self._pids_path = pids_path

    @property
    def has_memory_limit(self) -> bool:
        return bool(self._memory_path)

    @property
    def has_process_limit(self) -> bool:
        return bool(self._pids_path)

    def add_process(self, pid: int) -> None:
        """Put `pid` and all its later children into the group."""
        for path in self.paths:
            write_file(f"{path}/cgroup.procs", str(pid))

    def count_oom_kills(self) -> int:
        """Count the processes that the kernel has killed because our limit was reached.

        It also counts here whom it kills for a limit above ours, or because the machine has no memory left.
        """
        if not self.has_memory_limit or not self._has_reached_memory_limit():
            return 0
        return max(_read_counter(f"{self._memory_path}/{name}", "oom_kill") for name in OOM_FILES)

    def _has_reached_memory_limit(self) -> bool:
        path = self._memory_path
        peak, limit = (_read_number(f"{path}/memory.{name}_in_bytes") for name in ("max_usage", "limit"))  # version 1
        return 0 < limit < peak + MB or _read_counter(f"{path}/memory.events", "oom") > 0

    def count_refused_forks(self) -> int:
        """Count the processes and threads that could not be started because there were too many."""
        return _read_counter(f"{self._pids_path}/pids.events", "max") if self.has_process_limit else 0

    def count_refusals_by_others(self, own_limit: int) -> int:
        """Count those for which a group above us is narrower than our own limit; the kernel counts them here."""
        return self.count_refused_forks() if _find_outer_limit(self._pids_path) < own_limit else 0

    def count_processes(self) -> int | None:
        """Count processes and threads; None if unreadable."""
        try:
            return int(_read_text(f"{self._pids_path}/pids.current"))
        except (OSError, ValueError):
            return None

    def remove(self) -> bool:
        return remove_cgroups(self.paths)


def probe_cgroups() -> tuple[bool, bool]:
    """Try whether memory and the number of processes can be limited here, and undo it."""
    group = create_cgroup(f"trial-{os.getpid()}", memory_mb=64, processes=64)
    if group is None:
        return False, False
    found = group.has_memory_limit, group.has_process_limit
    group.remove()
    return found


def create_cgroup(attempt: str, *, memory_mb: int, processes: int, folder: str = "") -> Cgroup | None:
    """Create an empty group with these limits; None if unavailable or no limit is asked for."""
    wanted = {MEMORY: memory_mb * MB, PIDS: processes}
    limits = {controller: value for controller, value in wanted.items() if value}
    found = find_parents(tuple(limits))
    for place in found:
        remove_abandoned_cgroups(place.path)
    end = f"{os.getpid()}.{_find_pid_namespace()}" if found else ""
    paths = tuple(f"{place.path}/{format_group_name(attempt, folder)}-{end}" for place in found)
    if folder and found:
        write_json(f"{folder}/{GROUPS_FILE}", {"paths": paths})
    held: dict[str, str] = {}
    for place, path in zip(found, paths, strict=True):
        try:
            held |= _create_group(place, path, limits)
        except OSError:  # permissions allowed it, the kernel did not
            remove_cgroups((path,))
    made = tuple(path for path in paths if path in held.values())
    return Cgroup(made, memory_path=held.get(MEMORY, ""), pids_path=held.get(PIDS, "")) if made else None


def format_group_name(attempt: str, folder: str) -> str:
    """Include the folder: attempts of two projects may have the same name."""
    return f"{GROUP_PREFIX}{attempt}-{crc32(folder.encode('utf-8', 'surrogateescape')):08x}"


def _create_group(place: CgroupParent, path: str, limits: Mapping[str, int]) -> dict[str, str]:
    """Return which controller is limited by which path."""
    remove_cgroups((path,))  # an old group would keep its counters
    os.mkdir(path)
    for controller in place.controllers:
        write_file(f"{path}/{LIMIT_FILES[place.version, controller]}", str(limits[controller]))
    if MEMORY in place.controllers:
        for name, value in (("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", str(limits[MEMORY]))):
            with suppress(OSError):  # no swap accounting on this machine
                write_file(f"{path}/{name}", value)
    return dict.fromkeys(place.controllers, path)


def _read_counter(path: str, name: str) -> int:
    try:
        lines = _read_text(path).splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def _read_number(path: str) -> int:
    try:
        return int(_read_text(path))
    except (OSError, ValueError):
        return 0


def remove_cgroups(paths: tuple[str, ...]) -> bool:
    """Kill the members and remove the groups; False if one is left."""
    give_up = time.monotonic() + REMOVE_TIMEOUT
    left = list(paths)
    while left:
        left = [path for path in left if not _try_remove(path)]
        if left and time.monotonic() > give_up:
            return False
        if left:
            time.sleep(0.01)
    return True


def _try_remove(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        for pid in _read_members(path):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return False
    return True


def find_leftover_cgroups(folder: str) -> tuple[str, ...]:
    """List the groups that an earlier warden recorded for this attempt, and no other path."""
    name = format_group_name(os.path.basename(folder), folder)
    try:
        noted = [str(path) for path in read_json(f"{folder}/{GROUPS_FILE}").get("paths", ())]
    except (OSError, ValueError, TypeError):
        return ()
    return tuple(path for path in noted if os.path.basename(path).rpartition("-")[0] == name)


def remove_abandoned_cgroups(place: str) -> None:
    """Remove empty groups whose warden is gone. Those of another container have pids that mean nothing here."""
    with suppress(OSError):
        ours = _find_pid_namespace()
        for name in sorted(os.listdir(place)):
            pid, _, space = name.rpartition("-")[2].partition(".")
            if not name.startswith(GROUP_PREFIX) or not pid.isdigit() or space != ours:
                continue
            if not os.path.exists(f"/proc/{pid}"):
                with suppress(OSError):  # not empty
                    os.rmdir(f"{place}/{name}")


def _find_pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def list_members(paths: tuple[str, ...]) -> set[int]:
    return {pid for path in paths for pid in _read_members(path)}


def _read_members(path: str) -> list[int]:
    try:
        return [int(line) for line in _read_text(f"{path}/cgroup.procs").split()]
    except OSError:
        return []


def _find_outer_limit(path: str) -> float:
    """Return how many processes the groups above this one allow."""
    limits = []
    while path := os.path.dirname(path.rstrip("/")).rstrip("/"):
        try:
            found = _read_text(f"{path}/pids.max").strip()
        except OSError:  # the root has no limit
            break
        limits += [int(found)] if found.isdecimal() else []
    return min(limits, default=float("inf"))


def count_outside_refusals() -> int:
    """Count the processes that could not be started in the group we run in, of which others set the limit."""
    try:
        ours = parse_own_groups(_read_text("/proc/self/cgroup"))
        there = parse_cgroup_mounts(_read_text("/proc/self/mountinfo"))
    except OSError:
        return 0
    folders = {find_group_folder(there.get(name), ours.get(name)) for name in (PIDS, "")} - {""}
    return sum(_read_counter(f"{folder}/pids.events", "max") for folder in folders)


def find_parents(wanted: tuple[str, ...] = (MEMORY, PIDS)) -> list[CgroupParent]:
    """List where groups for these controllers can be created, as far as permissions show."""
    try:
        ours = parse_own_groups(_read_text("/proc/self/cgroup"))
        there = parse_cgroup_mounts(_read_text("/proc/self/mountinfo"))
    except OSError:
        return []
    unified = find_unified_parent(ours, there, wanted)
    found = [unified] if unified is not None else []
    missing = [name for name in wanted if unified is None or name not in unified.controllers]
    for controller in missing:
        base = find_group_folder(there.get(controller), ours.get(controller))
        if base and _is_writable(base):
            found.append(CgroupParent(base, 1, (controller,)))
    return found


def find_unified_parent(
    ours: Mapping[str, str], there: Mapping[str, tuple[str, str]], wanted: tuple[str, ...]
) -> CgroupParent | None:
    """Find the parent of our own group: in version 2 a group with processes cannot delegate controllers."""
    base = find_group_folder(there.get(""), ours.get(""))
    if not base or ours.get("") == "/":
        return None
    above = os.path.dirname(base)
    if not _is_writable(above) or not os.access(f"{above}/cgroup.procs", os.W_OK):
        return None
    try:
        delegated = _read_text(f"{above}/cgroup.subtree_control").split()
    except OSError:
        return None
    controllers = tuple(name for name in wanted if name in delegated)
    return CgroupParent(above, 2, controllers) if controllers else None


def _is_writable(path: str) -> bool:
    return os.access(path, os.W_OK | os.X_OK) and not os.statvfs(path).f_flag & os.ST_RDONLY


def parse_own_groups(text: str) -> dict[str, str]:
    """Map controllers to our groups; "" is version 2."""
    found = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def parse_cgroup_mounts(text: str) -> dict[str, tuple[str, str]]:
    """Map controllers to the mount point of their file system and its root group."""
    found = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split()[3:5]
        if kind == "cgroup2":
            found[""] = (_unescape_path(point), _unescape_path(root))
        elif kind == "cgroup":
            names = options.split()[-1].split(",")
            found.update(
                {name: (_unescape_path(point), _unescape_path(root)) for name in (MEMORY, PIDS) if name in names}
            )
    return found


def _unescape_path(path: str) -> str:
    return path.encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


def find_group_folder(mount: tuple[str, str] | None, group: str | None) -> str:
    """Return "" if our group is not below what is mounted."""
    if mount is None or group is None:
        return ""
    point, root = mount
    if root not in ("/", group) and not group.startswith(f"{root}/"):
        return ""
    below = group if root == "/" else group[len(root) :]
    return f"{point}{below}".rstrip("/")


def _read_text(path: str) -> str:
    return read_file(path).decode("utf-8", "replace")
