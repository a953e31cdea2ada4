"""Describe a sandbox as bubblewrap's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blueflame.model.sandbox import (
    BubblewrapFeatures,
    Mount,
    MountKind,
    Network,
    ResourceLimits,
    SandboxSpec,
)

SECCOMP_FD = 10  # the seccomp program is opened here by the caller
HOSTNAME = "blueflame"
LOOPBACK_PORTS = (61128, 61130)  # gateway and hook, on the loopback device of the sandbox


def arrange_mounts(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Sort mounts so that a place comes after what it is below; of two for the same place, the later one counts.

    A mount point in a folder that the sandboxed process can write to must not be under its control: between two starts
    it could put a link there, and the next start would follow it. So the first folder on the way to it is an empty
    mount of ours, which cannot be moved while it is mounted.
    """
    by_target = {mount.target: mount for mount in mounts}
    by_target = {target: mount for target, mount in by_target.items() if not _is_redundant(mount, by_target)}
    for target in sorted(by_target):
        for scaffold in _list_scaffolds(target, by_target):
            by_target.setdefault(scaffold.target, scaffold)
    return tuple(by_target[target] for target in sorted(by_target, key=_split_path))


def _is_redundant(mount: Mount, known: dict[str, Mount]) -> bool:
    """Read-only below a mount that is read-only as a whole. Each mount costs time, more with each one."""
    above = next(_list_mounts_above(mount.target, known), None)
    return above is not None and above.kind is mount.kind is MountKind.RO and _is_same_tree(mount, above)


def _list_scaffolds(target: str, known: dict[str, Mount]) -> Iterator[Mount]:
    above = next((mount for mount in _list_mounts_above(target, known) if mount.kind is MountKind.RW), None)
    if above is None or _is_same_tree(known[target], above):
        return
    first = above.target.rstrip("/") + "/" + target[len(above.target.rstrip("/")) + 1 :].partition("/")[0]
    if first != target:
        yield Mount(kind=MountKind.EMPTY, target=first, why="on the way to what is below it")


def _list_mounts_above(target: str, known: dict[str, Mount]) -> Iterator[Mount]:
    """The mounts that contain this place, the innermost first."""
    while target.strip("/"):
        target = target.rpartition("/")[0] or "/"
        if target in known:
            yield known[target]


def _is_same_tree(mount: Mount, above: Mount) -> bool:
    """Part of a writable folder, mounted again over itself: an empty folder on the way would hide its neighbours."""
    return (
        mount.source.startswith(above.source.rstrip("/") + "/")
        and mount.source[len(above.source) :] == (mount.target[len(above.target) :])
    )


def find_nearest_mount(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Return the innermost mount that contains the path."""
    holding = [mount for mount in mounts if is_below(path, mount.target)]
    return max(holding, key=lambda mount: len(_split_path(mount.target)), default=None)


def is_below(path: str, folder: str) -> bool:
    """Also True for the folder itself; both paths absolute and normalized."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _split_path(path: str) -> list[str]:
    return path.strip("/").split("/")


def build_bwrap_argv(spec: SandboxSpec, engine: BubblewrapFeatures) -> tuple[str, ...]:
    """Build everything before the command. `/` is never bound: what is not named here does not exist inside."""
    return (
        engine.program,
        *_list_namespace_options(spec, engine),
        *(word for mount in spec.mounts for word in _list_mount_options(mount, spec, engine)),
        *_list_remount_options(spec),
        "--chdir",
        spec.cwd,
        *(("--seccomp", str(SECCOMP_FD)) if spec.seccomp else ()),
        "--",
    )


def _list_namespace_options(spec: SandboxSpec, engine: BubblewrapFeatures) -> tuple[str, ...]:
    return (
        "--unshare-user",
        *(("--disable-userns",) if engine.disable_userns else ()),
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        *(("--unshare-net",) if spec.network is Network.NONE else ()),
        *("--uid", str(spec.uid), "--gid", str(spec.gid)),
        *("--cap-drop", "ALL"),
        *("--hostname", HOSTNAME),
        "--die-with-parent",
        "--new-session",
    )


def _list_mount_options(mount: Mount, spec: SandboxSpec, engine: BubblewrapFeatures) -> tuple[str, ...]:
    small = ("--size", str(spec.tmpfs_bytes)) if engine.size else ()
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


def _list_remount_options(spec: SandboxSpec) -> tuple[str, ...]:
    """Make our folders that hold mount points read-only once all is mounted, and /proc: if the caller is root,
    processes inside own the kernel settings in it and could change them."""
    places = [
        "/",
        *(mount.target for mount in spec.mounts if mount.kind in (MountKind.EMPTY, MountKind.DEV, MountKind.PROC)),
    ]
    return tuple(word for place in places for word in ("--remount-ro", place))


def build_rlimits(bounds: ResourceLimits) -> dict[str, int]:
    """Build the limits of launch.json. No limit of address space: agents in JavaScript map a hundred gigabytes and use
    little of it. No limit of processes: here it would count all of the person's; the warden sets it in the sandbox.
    """
    named = {"cpu": bounds.cpu_seconds, "fsize": bounds.file_bytes, "nofile": bounds.open_files}
    return {"core": 0} | {name: value for name, value in named.items() if value}
