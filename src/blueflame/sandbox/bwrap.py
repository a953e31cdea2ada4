"""A box in the words of whoever builds it: bubblewrap's arguments, macOS's profile language, and plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from blueflame.model.sandbox import (
    TMP,
    BubblewrapFeatures,
    Mount,
    MountKind,
    Network,
    ResourceLimits,
    SandboxLevel,
    SandboxSpec,
)

SECCOMP_FD = 10  # where whoever starts the box has opened the seccomp program
HOSTNAME = "blueflame"
LOOPBACK_PORTS = (61128, 61130)  # gateway and hook, on the box's own loopback


def arrange_mounts(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """What is below another place comes after it; of two for the same place, the later one holds.

    A mount point inside of a folder that the sandboxed can write must not be left to them: between two starts they
    could put a link there, and the next start would follow it. So the first folder on the way to it is one of ours,
    empty and in the kernel's keeping: while it is mounted nobody can move it.
    """
    by_target = {mount.target: mount for mount in mounts}
    by_target = {target: mount for target, mount in by_target.items() if not _is_redundant(mount, by_target)}
    for target in sorted(by_target):
        for scaffold in _list_scaffolds(target, by_target):
            by_target.setdefault(scaffold.target, scaffold)
    return tuple(by_target[target] for target in sorted(by_target, key=_split_path))


def _is_redundant(mount: Mount, known: dict[str, Mount]) -> bool:
    """Read-only within a place that is read-only as a whole. Each mount costs time, the more of them the more each."""
    above = find_nearest_mount(mount.target, [each for each in known.values() if each.target != mount.target])
    return above is not None and above.kind is mount.kind is MountKind.RO and _is_same_tree(mount, above)


def _list_scaffolds(target: str, known: dict[str, Mount]) -> Iterator[Mount]:
    above = find_nearest_mount(
        target, [mount for mount in known.values() if mount.kind is MountKind.RW and mount.target != target]
    )
    if above is None or _is_same_tree(known[target], above):
        return
    first = above.target.rstrip("/") + "/" + target[len(above.target.rstrip("/")) + 1 :].partition("/")[0]
    if first != target:
        yield Mount(kind=MountKind.EMPTY, target=first, why="on the way to what is below it")


def _is_same_tree(mount: Mount, above: Mount) -> bool:
    """A part of a writable folder, mounted again over itself: an empty folder on the way would hide its neighbours."""
    return (
        mount.source.startswith(above.source.rstrip("/") + "/")
        and mount.source[len(above.source) :] == (mount.target[len(above.target) :])
    )


def find_nearest_mount(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The innermost mount that the path is in."""
    holding = [mount for mount in mounts if is_below(path, mount.target)]
    return max(holding, key=lambda mount: len(_split_path(mount.target)), default=None)


def is_below(path: str, folder: str) -> bool:
    """Or the folder itself; both absolute and without dots."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _split_path(path: str) -> list[str]:
    return path.strip("/").split("/")


def build_bwrap_argv(box: SandboxSpec, engine: BubblewrapFeatures) -> tuple[str, ...]:
    """Everything in front of the command. `/` is never bound: what is not named here does not exist inside."""
    return (
        engine.program,
        *_list_namespace_options(box, engine),
        *(word for mount in box.mounts for word in _list_mount_options(mount, box, engine)),
        *_list_remount_options(box),
        "--chdir",
        box.cwd,
        *(("--seccomp", str(SECCOMP_FD)) if box.seccomp else ()),
        "--",
    )


def _list_namespace_options(box: SandboxSpec, engine: BubblewrapFeatures) -> tuple[str, ...]:
    return (
        "--unshare-user",
        *(("--disable-userns",) if engine.disable_userns else ()),
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        *(("--unshare-net",) if box.network is Network.NONE else ()),
        *("--uid", str(box.uid), "--gid", str(box.gid)),
        *("--cap-drop", "ALL"),
        *("--hostname", HOSTNAME),
        "--die-with-parent",
        "--new-session",
    )


def _list_mount_options(mount: Mount, box: SandboxSpec, engine: BubblewrapFeatures) -> tuple[str, ...]:
    small = ("--size", str(box.tmpfs_bytes)) if engine.size else ()
    match mount.kind:
        case MountKind.RO | MountKind.FILE:
            return ("--ro-bind", mount.source, mount.target)
        case MountKind.RW:
            return ("--bind", mount.source, mount.target)
        case MountKind.TMPFS:
            return ("--perms", "1777", *small, "--tmpfs", mount.target)
        case MountKind.EMPTY:
            return ("--perms", "0755", *small, "--tmpfs", mount.target)
        case MountKind.DEV:
            return ("--dev", mount.target)
        case MountKind.PROC:
            return ("--proc", mount.target)
        case MountKind.SYMLINK:
            return ("--symlink", mount.source, mount.target)


def _list_remount_options(box: SandboxSpec) -> tuple[str, ...]:
    """When all is in its place, the folders of ours that hold the mount points can no longer be written. Nor can /proc:
    for a caller who is root, those inside own the settings of the kernel in it, and could change them (tried)."""
    places = [
        "/",
        *(mount.target for mount in box.mounts if mount.kind in (MountKind.EMPTY, MountKind.DEV, MountKind.PROC)),
    ]
    return tuple(word for place in places for word in ("--remount-ro", place))


def build_rlimits(bounds: ResourceLimits) -> dict[str, int]:
    """For launch.json. Not of address space: agents in JavaScript map a hundred gigabytes and use little of it. Not of
    processes: set out here it would count all of the person's; the warden sets it where the box's own are counted."""
    named = {"cpu": bounds.cpu_seconds, "fsize": bounds.file_bytes, "nofile": bounds.open_files}
    return {"core": 0} | {name: value for name, value in named.items() if value}


def find_outside_path(path: str, box: SandboxSpec) -> str | None:
    """Where a path of the inside is on the machine; None where it is not on the machine at all."""
    mount = find_nearest_mount(path, box.mounts)
    if mount is None or mount.kind not in (MountKind.RO, MountKind.RW, MountKind.FILE):
        return None
    return mount.source + path[len(mount.target.rstrip("/")) :]


def build_seatbelt_profile(box: SandboxSpec) -> str:
    """The profile for macOS's sandbox-exec. It knows no mounts: places are where they are, and HOME and TMPDIR point
    to the private folders. No process namespaces there; memory is only watched (docs/reference/sandbox.md)."""
    lines = [
        *SEATBELT_HEADER,
        f"(allow file-read* {_format_subpaths(SEATBELT_READABLE)})",
        f"(allow file-write* {_format_subpaths(SEATBELT_DEVICES)})",
        *(rule for mount in box.mounts for rule in _list_mount_rules(mount)),  # the last rule that fits a path decides
        *_list_network_rules(box.network),
    ]
    return "\n".join(lines) + "\n"


def _list_mount_rules(mount: Mount) -> tuple[str, ...]:
    match mount.kind:
        case MountKind.RO | MountKind.FILE:
            place = _format_subpaths([mount.source])
            return (f"(allow file-read* {place})", f"(deny file-write* {place})")
        case MountKind.RW:
            return (f"(allow file-read* file-write* {_format_subpaths([mount.source])})",)
        case MountKind.EMPTY:
            return (f"(deny file-read* file-write* {_format_subpaths([mount.target])})",)
        case _:
            return ()


SEATBELT_HEADER = (
    "(version 1)",
    "(deny default)",
    "(allow process*)",
    "(deny process-info*)",
    "(allow process-info* (target same-sandbox))",
    "(allow signal (target same-sandbox))",
    "(allow sysctl-read)",
    '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
    "(allow file-read-metadata)",
)
SEATBELT_READABLE = (
    *("/usr", "/bin", "/sbin", "/System", "/Library/Developer", "/Library/Apple", "/opt/homebrew", "/dev"),
    *("/private/etc/ssl", "/private/var/db/timezone", "/private/var/select"),
)
SEATBELT_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper")


def _list_network_rules(network: Network) -> list[str]:
    if network is Network.HOST:
        return ["(allow network*)", "(allow system-socket)"]
    if network is Network.NONE:
        return ["(deny network*)"]
    doors = " ".join(f'(remote ip "localhost:{port}")' for port in LOOPBACK_PORTS)
    return ["(deny network*)", f"(allow network-outbound {doors})"]


def _format_subpaths(paths: Sequence[str]) -> str:
    return " ".join(f"(subpath {_quote_text(path)})" for path in dict.fromkeys(paths))


def _quote_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def describe_sandbox(box: SandboxSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Headings, and the lines under each."""
    if box.level is SandboxLevel.OFF:
        return (("No sandbox", ("The level is off: commands run as you, and can do what you can.",)),)
    return (
        ("Can be written", tuple(_describe_mounts(box, (MountKind.RW, MountKind.TMPFS)))),
        (
            "Can be read",
            tuple(
                _describe_mounts(box, (MountKind.RO, MountKind.FILE, MountKind.SYMLINK, MountKind.DEV, MountKind.PROC))
            ),
        ),
        ("Hidden", tuple(_describe_mounts(box, (MountKind.EMPTY,)))),
        ("Nothing else of the machine exists inside", ()),
        ("Network", (describe_network(box),)),
        ("Limits", describe_bounds(box.bounds)),
        ("Runs as", (f"{box.user} (uid {box.uid}), no capabilities, in {box.cwd}, HOME={box.home}, TMPDIR={TMP}",)),
        ("Environment", (", ".join(name for name, _ in box.environment) or "nothing",)),
        ("PATH", box.path),
        ("Notes", box.notes),
    )


def _describe_mounts(box: SandboxSpec, kinds: Sequence[MountKind]) -> Iterator[str]:
    for mount in box.mounts:
        if mount.kind in kinds:
            other = mount.source and mount.source != mount.target
            shown = f" -> {mount.source}" if mount.kind is MountKind.SYMLINK else f" = {mount.source}" if other else ""
            yield f"{mount.target}{shown}" + (f"  ({mount.why})" if mount.why else "")


def describe_network(box: SandboxSpec) -> str:
    match box.network:
        case Network.HOST:
            return "all of yours, as sandbox.allow_network says: this is a hole in the wall"
        case Network.DOORS if box.hosts:
            return f"none, but for {', '.join(box.hosts)} through the gateway"
        case _:
            return "none"


def describe_bounds(bounds: ResourceLimits) -> tuple[str, ...]:
    said = (
        (bounds.cpu_seconds, f"{bounds.cpu_seconds:,} s of CPU time for each process"),
        (bounds.memory_mb, f"{bounds.memory_mb:,} MB of memory for all together"),
        (bounds.processes, f"{bounds.processes:,} processes and threads"),
        (bounds.open_files, f"{bounds.open_files:,} open files for each process"),
        (bounds.file_bytes, f"{bounds.file_bytes >> 20:,} MB for each file"),
        (bounds.min_free_disk_mb, f"ended when less than {bounds.min_free_disk_mb:,} MB of disk are free"),
    )
    return tuple(words for value, words in said if value)
