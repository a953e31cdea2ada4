"""How many agents the machine can bear now: by memory (the machine's and the control group's) and by disk."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from blueflame.model.limits import Capacity
from blueflame.model.settings import Settings

MANY = 1_000
MB = 2**20
UNLIMITED = 2**60  # control groups write "no limit" as a number near 2**63, or as the word max
CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is free, in bytes."""

    memory: int
    disk: int


def measure(settings: Settings, running: int, room: Room, checkout_bytes: int = 0) -> Capacity:
    """What runs already, plus what there is room for (E-09); never less than one, so that work goes on."""
    concurrency = settings.concurrency
    if not concurrency.adaptive:
        return Capacity(agents=MANY)
    per_agent = concurrency.adaptive_min_ram_per_agent_mb * MB
    by_memory = running + room.memory // per_agent
    by_disk = running + room.disk // checkout_bytes if checkout_bytes else MANY
    if by_disk < by_memory:
        reason = f"{room.disk // MB:,} MB of disk are free, a checkout takes {max(checkout_bytes // MB, 1):,} MB"
    else:
        reason = f"{room.memory // MB:,} MB of memory are free, {per_agent // MB:,} MB are asked for each agent"
    return Capacity(agents=max(1, min(by_memory, by_disk)), reason=reason)


def room_at(folder: Path) -> Room:
    machine = psutil.virtual_memory().available
    return Room(memory=min(machine, group_room(OWN_GROUPS, CGROUPS)), disk=shutil.disk_usage(_existing(folder)).free)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def group_room(own: Path, mounted: Path) -> int:
    """What the tightest control group above us still allows; UNLIMITED where there is none."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:  # no control groups here: not Linux, or hidden from us
        return UNLIMITED
    return min((_room_of_line(line, mounted) for line in lines), default=UNLIMITED)


def _room_of_line(line: str, mounted: Path) -> int:
    """`0::/path` is version 2; `4:memory:/path` is version 1."""
    number, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if number == "0" and not controllers:
        return _tightest(mounted, path, "memory.max", "memory.current")
    if "memory" in controllers.split(","):
        return _tightest(mounted / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes")
    return UNLIMITED


def _tightest(root: Path, path: str, limit: str, usage: str) -> int:
    """Limits bind downwards, so every group from ours up to the root counts."""
    group = root / path.lstrip("/")
    groups = [group, *(above for above in group.parents if above.is_relative_to(root))]
    rooms = []
    for folder in groups:
        most, used = _number(folder / limit), _number(folder / usage)
        if most is not None and most < UNLIMITED:
            rooms.append(max(0, most - (used or 0)))
    return min(rooms, default=UNLIMITED)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such file, or the word "max"
        return None
