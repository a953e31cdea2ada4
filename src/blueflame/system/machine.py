"""How many agents the machine can run now, by memory and disk, and which ports are free."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.model.limits import Capacity
from blueflame.model.settings import Settings
from blueflame.system.disk import measure_free_disk

UNLIMITED_AGENTS = 1_000
MIN_MEMORY_MB = 2048  # of one agent; a machine with less starts fewer agents
SHARED_PART = 0.8  # of the free memory; the rest is left to the person
MB = 2**20
UNLIMITED_BYTES = 2**60  # control groups write "no limit" as a number near 2**63, or as the word max
CGROUP_MOUNT = Path("/sys/fs/cgroup")
MEMORY = Path("/proc/meminfo")
OWN_CGROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeResources:
    """Free bytes."""

    memory: int
    disk: int


def measure_capacity(
    settings: Settings, running: int, measure: Callable[[], FreeResources], checkout_bytes: int = 0
) -> Capacity:
    """Count running agents plus those that fit; at least one, so that work continues."""
    concurrency = settings.concurrency
    if not concurrency.adaptive:
        return Capacity(agents=UNLIMITED_AGENTS)
    room = measure()
    per_agent = concurrency.adaptive_min_ram_per_agent_mb * MB
    by_memory = running + room.memory // per_agent
    by_disk = running + room.disk // checkout_bytes if checkout_bytes else UNLIMITED_AGENTS
    if by_disk < by_memory:
        reason = f"{room.disk // MB:,} MB of disk are free, a checkout takes {max(checkout_bytes // MB, 1):,} MB"
    else:
        reason = f"{room.memory // MB:,} MB of memory are free, {per_agent // MB:,} MB are required for each agent"
    return Capacity(agents=max(1, min(by_memory, by_disk)), reason=reason)


@cache
def measure_memory_share(agents: int) -> int:
    """Return how many MB one of so many agents may use, as measured once: later, agents would count each other."""
    return compute_memory_share(_measure_memory(), agents)


def compute_memory_share(free: int, agents: int) -> int:
    return max(MIN_MEMORY_MB, int(free * SHARED_PART) // MB // max(agents, 1))


def measure_free(folder: Path) -> FreeResources:
    return FreeResources(
        memory=_measure_memory(),
        disk=measure_free_disk(str(next(each for each in (folder, *folder.parents) if each.exists()))) or 0,
    )


def _measure_memory() -> int:
    try:
        machine = _read_available_memory()
    except OSError as error:
        raise WorldError(f"the free memory cannot be read: {error}. Mount /proc") from error
    return min(machine, measure_cgroup_memory(OWN_CGROUPS, CGROUP_MOUNT))


def _read_available_memory() -> int:
    with suppress(FileNotFoundError), MEMORY.open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    import psutil  # late: elsewhere than on Linux

    return psutil.virtual_memory().available


def measure_cgroup_memory(own: Path, mounted: Path) -> int:
    """Return what the tightest control group above us still allows; UNLIMITED_BYTES without one."""
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
        most = _read_number(folder / limit)
        if most is not None and most < UNLIMITED_BYTES:
            rooms.append(max(0, most - (_read_number(folder / usage) or 0)))
    return min(rooms, default=UNLIMITED_BYTES)


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such file, or the word "max"
        return None


FIRST_PORT = 23000
PORT_CEILING = 32768  # from here on the kernel hands ports out for outgoing connections
BLOCK_SIZE = 10


def find_port_block(
    taken: Iterable[range] = (), *, size: int = BLOCK_SIZE, base: int = FIRST_PORT, ceiling: int = PORT_CEILING
) -> range:
    """Find the first block from `base` on that no attempt holds and no process listens in: same state, same block."""
    held = tuple(taken)
    for start in range(base, ceiling - size + 1, size):
        block = range(start, start + size)
        overlapping = any(start < other.stop and other.start < block.stop for other in held)
        if not overlapping and all(map(is_port_free, block)):
            return block
    raise WorldError(
        f"no {size} free ports in a row between {base} and {ceiling - 1}: "
        "stop what listens there, run fewer agents, or set another port base in the configuration"
    )


def is_port_free(port: int) -> bool:
    return _can_bind(socket.AF_INET, "127.0.0.1", port) and _can_bind(socket.AF_INET6, "::1", port)


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # a connection that ended a minute ago does not count; a listener does
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as e:
        return e.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # no IPv6 here: no listener either
    return True
