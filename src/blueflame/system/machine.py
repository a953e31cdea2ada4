"""How many agents the machine can bear now: by memory (the machine's and the control group's) and by disk."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from blueflame.model.limits import Capacity
from blueflame.model.settings import Settings

UNLIMITED_AGENTS = 1_000
MB = 2**20
UNLIMITED_BYTES = 2**60  # control groups write "no limit" as a number near 2**63, or as the word max
CGROUP_MOUNT = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeResources:
    """What is free, in bytes."""

    memory: int
    disk: int


def measure_capacity(settings: Settings, running: int, room: FreeResources, checkout_bytes: int = 0) -> Capacity:
    """What runs already, plus what there is room for (E-09); never less than one, so that work goes on."""
    concurrency = settings.concurrency
    if not concurrency.adaptive:
        return Capacity(agents=UNLIMITED_AGENTS)
    per_agent = concurrency.adaptive_min_ram_per_agent_mb * MB
    by_memory = running + room.memory // per_agent
    by_disk = running + room.disk // checkout_bytes if checkout_bytes else UNLIMITED_AGENTS
    if by_disk < by_memory:
        reason = f"{room.disk // MB:,} MB of disk are free, a checkout takes {max(checkout_bytes // MB, 1):,} MB"
    else:
        reason = f"{room.memory // MB:,} MB of memory are free, {per_agent // MB:,} MB are asked for each agent"
    return Capacity(agents=max(1, min(by_memory, by_disk)), reason=reason)


def measure_free(folder: Path) -> FreeResources:
    machine = psutil.virtual_memory().available
    return FreeResources(
        memory=min(machine, measure_cgroup_memory(OWN_CGROUPS, CGROUP_MOUNT)),
        disk=shutil.disk_usage(_find_existing(folder)).free,
    )


def _find_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def measure_cgroup_memory(own: Path, mounted: Path) -> int:
    """What the tightest control group above us still allows; UNLIMITED where there is none."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:  # no control groups here: not Linux, or hidden from us
        return UNLIMITED_BYTES
    return min((_measure_cgroup_line(line, mounted) for line in lines), default=UNLIMITED_BYTES)


def _measure_cgroup_line(line: str, mounted: Path) -> int:
    """`0::/path` is version 2; `4:memory:/path` is version 1."""
    number, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if number == "0" and not controllers:
        return _find_tightest_limit(mounted, path, "memory.max", "memory.current")
    if "memory" in controllers.split(","):
        return _find_tightest_limit(mounted / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes")
    return UNLIMITED_BYTES


def _find_tightest_limit(root: Path, path: str, limit: str, usage: str) -> int:
    """Limits bind downwards, so every group from ours up to the root counts."""
    group = root / path.lstrip("/")
    groups = [group, *(above for above in group.parents if above.is_relative_to(root))]
    rooms = []
    for folder in groups:
        most, used = _read_number(folder / limit), _read_number(folder / usage)
        if most is not None and most < UNLIMITED_BYTES:
            rooms.append(max(0, most - (used or 0)))
    return min(rooms, default=UNLIMITED_BYTES)


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such file, or the word "max"
        return None
