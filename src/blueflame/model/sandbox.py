"""What a sandboxed process has: the paths that exist for it, its network, its limits, its environment."""

from __future__ import annotations

from enum import StrEnum

from blueflame.lazy_dataclass import dataclass

HOME = "/home/agent"
TMP = "/tmp"  # noqa: S108 - inside the sandbox, where it is a private folder
USER = "agent"


class SandboxLevel(StrEnum):
    STRICT = "strict"
    STANDARD = "standard"
    OFF = "off"


class MountKind(StrEnum):
    RO = "ro"  # of the machine, read-only
    RW = "rw"
    FILE = "file"  # written by us, in place of the machine's: passwd, hosts
    TMPFS = "tmpfs"  # in memory, gone with the sandbox
    EMPTY = "empty"  # hidden: an empty folder that cannot be written
    DEV = "dev"
    PROC = "proc"
    SYMLINK = "symlink"


class Network(StrEnum):
    NONE = "none"  # no network at all
    DOORS = "doors"  # a private loopback with the hook and the gateway, nothing else
    HOST = "host"  # the network of the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    kind: MountKind
    target: str  # where it is inside
    source: str = ""  # where it is outside; for a symlink, where it points to
    why: str = ""  # for people


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """0: no limit."""

    cpu_seconds: int = 0
    file_bytes: int = 0
    open_files: int = 0
    processes: int = 0
    memory_mb: int = 0
    min_free_disk_mb: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Mounts are in the order in which they are made: a path comes after its parents."""

    level: SandboxLevel = SandboxLevel.STANDARD
    cwd: str
    mounts: tuple[Mount, ...] = ()
    network: Network = Network.NONE
    hosts: tuple[str, ...] = ()  # reached through the gateway
    registries: tuple[str, ...] = ()  # reached through it too, by setup commands only
    bounds: ResourceLimits = ResourceLimits()
    environment: tuple[tuple[str, str], ...] = ()  # names and values; only the names are for showing
    links: tuple[tuple[str, str], ...] = ()  # made in the private home: a name in it, and where it leads to
    notes: tuple[str, ...] = ()  # what was requested and is not inside
    uid: int = 1000
    gid: int = 1000
    user: str = USER
    home: str = HOME
    path: tuple[str, ...] = ()  # PATH inside
    seccomp: bool = True
    tmpfs_bytes: int = 64 << 20  # the most that each tmpfs holds


@dataclass(frozen=True, slots=True, kw_only=True)
class BubblewrapFeatures:
    """The installed bubblewrap, and what its version supports."""

    program: str = "/usr/bin/bwrap"
    disable_userns: bool = True
    size: bool = True
