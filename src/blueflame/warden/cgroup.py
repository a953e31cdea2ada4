"""A control group per attempt: the kernel's own wall around memory and processes, where it can be had.

Version 2 needs a delegated place (as systemd gives to a person's own services), version 1 needs root. A group is made
beside or below our own group, never above it: limits that already hold for us go on holding for the agent.
Its paths are noted in the attempt's folder before it is made: a later warden can clear up what a killed one left.
"""

# ruff: noqa: PTH102, PTH106, PTH110, PTH119, PTH120, PTH208 (pathlib costs 10 ms)
from __future__ import annotations

import os
import signal
import time
from binascii import crc32
from contextlib import suppress

from blueflame.warden.attempt_folder import read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NOTE = "groups.json"
PREFIX = "blueflame-"
MEMORY, PIDS = "memory", "pids"
MB = 1024 * 1024
REMOVE_PATIENCE = 2.0
LIMIT_FILES = {
    (1, MEMORY): "memory.limit_in_bytes",
    (2, MEMORY): "memory.max",
    (1, PIDS): "pids.max",
    (2, PIDS): "pids.max",
}
OOM_FILES = ("memory.oom_control", "memory.events")  # of version 1, of version 2


class Place:
    """A folder of the group file system where a group with these controllers can be made."""

    __slots__ = ("controllers", "path", "version")

    def __init__(self, path: str, version: int, controllers: tuple[str, ...]) -> None:
        self.path = path
        self.version = version
        self.controllers = controllers


class Group:
    """The groups of one attempt: one in version 2, one for each controller in version 1."""

    __slots__ = ("_memory_path", "_pids_path", "paths")

    def __init__(self, paths: tuple[str, ...], *, memory_path: str, pids_path: str) -> None:
        self.paths = paths
        self._memory_path = memory_path
        self._pids_path = pids_path

    @property
    def memory(self) -> bool:
        return bool(self._memory_path)

    @property
    def pids(self) -> bool:
        return bool(self._pids_path)

    def take(self, pid: int) -> None:
        """Whatever `pid` starts from now on belongs to the group as well."""
        for path in self.paths:
            _write(f"{path}/cgroup.procs", str(pid))

    def out_of_memory(self) -> int:
        """How many processes the kernel has killed for want of memory."""
        return max((_oom_kills(f"{self._memory_path}/{name}") for name in OOM_FILES), default=0) if self.memory else 0

    def processes(self) -> int | None:
        """With their threads; None when it cannot be read."""
        try:
            return int(_read(f"{self._pids_path}/pids.current"))
        except (OSError, ValueError):
            return None

    def remove(self) -> bool:
        return remove(self.paths)


def available() -> tuple[bool, bool]:
    """Whether memory, and whether the number of processes, can be walled in here: really tried, then undone."""
    group = make(f"trial-{os.getpid()}", memory_mb=64, processes=64)
    if group is None:
        return False, False
    found = group.memory, group.pids
    group.remove()
    return found


def make(attempt: str, *, memory_mb: int, processes: int, folder: str = "") -> Group | None:
    """A new, empty group with those limits; None where there is none to be had, or none of the two is wanted."""
    wanted = {MEMORY: memory_mb * MB, PIDS: processes}
    limits = {controller: value for controller, value in wanted.items() if value}
    found = places(tuple(limits))
    for place in found:
        sweep(place.path)
    paths = tuple(f"{place.path}/{name_of(attempt, folder)}-{os.getpid()}" for place in found)
    if folder and found:
        write_json(f"{folder}/{NOTE}", {"paths": paths})
    held: dict[str, str] = {}
    for place, path in zip(found, paths, strict=True):
        try:
            held |= _make_one(place, path, limits)
        except OSError:  # what the rights promised, the kernel refused
            remove((path,))
    made = tuple(path for path in paths if path in held.values())
    return Group(made, memory_path=held.get(MEMORY, ""), pids_path=held.get(PIDS, "")) if made else None


def name_of(attempt: str, folder: str) -> str:
    """The folder's place is part of it: attempts of two projects may have the same name."""
    return f"{PREFIX}{attempt}-{crc32(folder.encode('utf-8', 'surrogateescape')):08x}"


def _make_one(place: Place, path: str, limits: Mapping[str, int]) -> dict[str, str]:
    """Tells which controller is held by which path now."""
    remove((path,))  # one of an earlier life would bring its counts along
    os.mkdir(path)
    for controller in place.controllers:
        _write(f"{path}/{LIMIT_FILES[place.version, controller]}", str(limits[controller]))
    if MEMORY in place.controllers:
        for name, value in (("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", str(limits[MEMORY]))):
            with suppress(OSError):  # a machine that counts no swap
                _write(f"{path}/{name}", value)
    return dict.fromkeys(place.controllers, path)


def _oom_kills(path: str) -> int:
    try:
        lines = _read(path).splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def remove(paths: tuple[str, ...]) -> bool:
    """Whoever is still inside is killed first. False when one could not be removed."""
    give_up = time.monotonic() + REMOVE_PATIENCE
    left = list(paths)
    while left:
        left = [path for path in left if not _remove_one(path)]
        if left and time.monotonic() > give_up:
            return False
        if left:
            time.sleep(0.01)
    return True


def _remove_one(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        for pid in _members(path):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return False
    return True


def left_by(folder: str) -> tuple[str, ...]:
    """The groups that an earlier warden noted for this attempt, and no others whatever the note says."""
    name = name_of(os.path.basename(folder), folder)
    try:
        noted = [str(path) for path in read_json(f"{folder}/{NOTE}").get("paths", ())]
    except (OSError, ValueError, TypeError):
        return ()
    return tuple(path for path in noted if os.path.basename(path).rpartition("-")[0] == name)


def sweep(place: str) -> None:
    """Groups whose maker is gone and in which nobody is left: of wardens that were killed and never asked for again."""
    with suppress(OSError):
        for name in sorted(os.listdir(place)):
            maker = name.rpartition("-")[2]
            if name.startswith(PREFIX) and maker.isdigit() and not os.path.exists(f"/proc/{maker}"):
                with suppress(OSError):  # the kernel keeps what is not empty
                    os.rmdir(f"{place}/{name}")


def members_of(paths: tuple[str, ...]) -> set[int]:
    return {pid for path in paths for pid in _members(path)}


def _members(path: str) -> list[int]:
    try:
        return [int(line) for line in _read(f"{path}/cgroup.procs").split()]
    except OSError:
        return []


def places(wanted: tuple[str, ...] = (MEMORY, PIDS)) -> list[Place]:
    """Where groups for those controllers can be made, as far as rights tell."""
    try:
        ours = our_groups(_read("/proc/self/cgroup"))
        there = mounts(_read("/proc/self/mountinfo"))
    except OSError:
        return []
    unified = unified_place(ours, there, wanted)
    found = [unified] if unified is not None else []
    missing = [name for name in wanted if unified is None or name not in unified.controllers]
    for controller in missing:
        base = folder_of(there.get(controller), ours.get(controller))
        if base and _may_write(base):
            found.append(Place(base, 1, (controller,)))
    return found


def unified_place(
    ours: Mapping[str, str], there: Mapping[str, tuple[str, str]], wanted: tuple[str, ...]
) -> Place | None:
    """Beside our own group: a group with processes of its own (ours) may not hand controllers down in version 2."""
    base = folder_of(there.get(""), ours.get(""))
    if not base or ours.get("") == "/":
        return None
    above = os.path.dirname(base)
    if not _may_write(above) or not os.access(f"{above}/cgroup.procs", os.W_OK):
        return None
    try:
        handed_down = _read(f"{above}/cgroup.subtree_control").split()
    except OSError:
        return None
    controllers = tuple(name for name in wanted if name in handed_down)
    return Place(above, 2, controllers) if controllers else None


def _may_write(path: str) -> bool:
    return os.access(path, os.W_OK | os.X_OK) and not os.statvfs(path).f_flag & os.ST_RDONLY


def our_groups(text: str) -> dict[str, str]:
    """By controller; "" is version 2."""
    found = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def mounts(text: str) -> dict[str, tuple[str, str]]:
    """Where each controller's file system is mounted, and which group is its root there."""
    found = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split()[3:5]
        if kind == "cgroup2":
            found[""] = (_unescaped(point), _unescaped(root))
        elif kind == "cgroup":
            names = options.split()[-1].split(",")
            found.update({name: (_unescaped(point), _unescaped(root)) for name in (MEMORY, PIDS) if name in names})
    return found


def _unescaped(path: str) -> str:
    return path.encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


def folder_of(mount: tuple[str, str] | None, group: str | None) -> str:
    """ "" when our group is not below what is mounted."""
    if mount is None or group is None:
        return ""
    point, root = mount
    if root not in ("/", group) and not group.startswith(f"{root}/"):
        return ""
    below = group if root == "/" else group[len(root) :]
    return f"{point}{below}".rstrip("/")


def _read(path: str) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _write(path: str, content: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, content.encode())
    finally:
        os.close(handle)
