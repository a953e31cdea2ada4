"""What a sandboxed process has around it: every place that exists for it, its network, its limits, its environment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HOME = "/home/agent"
TMP = "/tmp"  # noqa: S108 - inside the box, where it is a private folder
USER = "agent"


class SandboxLevel(StrEnum):
    STRICT = "strict"
    STANDARD = "standard"
    OFF = "off"


class MountKind(StrEnum):
    RO = "ro"  # of the machine, as it is, not to be changed
    RW = "rw"
    FILE = "file"  # of ours, in the place of the machine's: passwd, hosts
    TMPFS = "tmpfs"  # in memory, gone with the box
    EMPTY = "empty"  # there is something on the machine, and inside there is an empty folder that cannot be written
    DEV = "dev"
    PROC = "proc"
    SYMLINK = "symlink"


class Network(StrEnum):
    NONE = "none"  # not even a loopback that leads anywhere
    DOORS = "doors"  # its own loopback with the hook and the gateway on it, nothing else
    HOST = "host"  # as the person has it


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
    """Mounts are in the order in which they are made: what is below another place comes after it."""

    level: SandboxLevel = SandboxLevel.STANDARD
    cwd: str
    mounts: tuple[Mount, ...] = ()
    network: Network = Network.NONE
    hosts: tuple[str, ...] = ()  # reached through the gateway
    bounds: ResourceLimits = ResourceLimits()
    environment: tuple[tuple[str, str], ...] = ()  # names and values; only the names are for showing
    links: tuple[tuple[str, str], ...] = ()  # made in the private home: a name in it, and where it leads to
    notes: tuple[str, ...] = ()  # what was asked for or looked for, and is not inside
    uid: int = 1000
    gid: int = 1000
    user: str = USER
    home: str = HOME
    path: tuple[str, ...] = ()  # where programs are looked for
    seccomp: bool = True
    tmpfs_bytes: int = 64 << 20  # each place in memory holds at most this


@dataclass(frozen=True, slots=True, kw_only=True)
class BubblewrapFeatures:
    """The program that makes the walls, and what this version of it can do."""

    program: str = "/usr/bin/bwrap"
    disable_userns: bool = True
    size: bool = True
