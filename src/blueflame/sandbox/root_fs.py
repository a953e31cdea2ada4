"""The minimal system inside a sandbox: which of the machine's own folders exist there.

No /run, /home, /root, /sys or /var: a read-only mount does not prevent connecting to a socket below it, and what does
not exist cannot be read, listed or connected to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import get_ident

from blueflame.model.sandbox import Mount, MountKind

ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
ETC_SETTINGS = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies"),
    *("pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf"),
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf"),  # not all of ssl: its private keys are beside them
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-*.path"),
    *("localtime", "timezone", "locale.alias", "locale.conf", "terminfo", "inputrc"),
    *("mime.types", "magic", "magic.mime", "protocols", "services", "rpc", "ethertypes", "networks", "gai.conf"),
    *("os-release", "lsb-release", "*-release", "debian_version"),
    *("java*", "maven", "perl", "php", "python*", "R", "fonts", "xml", "sgml", "ImageMagick*", "OpenCL", "vulkan"),
)
"""Settings without secrets. The small ones are copied into a folder of ours, since bubblewrap's time grows with the
square of the number of mounts (60 files one by one took 14 ms); the large ones are mounted into it."""
ETC_FOLDERS = (".", *sorted({str(Path(name).parent) for name in ETC_SETTINGS if "/" in name}))
MAX_COPIED_ENTRIES = 40
MAX_COPIED_BYTES = 256 * 1024
HIDDEN_PROC_FILES = ("keys", "key-users", "timer_list", "sched_debug", "latency_stats", "kcore", "kmsg", "vmallocinfo")
"""If the caller is root, processes inside own the kernel's files, and need no capability to read them."""


def list_system_mounts(files: Path, *, network: bool) -> Iterator[Mount]:
    """`files` holds our own etc; `network`: the machine's network is there, and with it how names are resolved."""
    yield Mount(kind=MountKind.RO, source="/usr", target="/usr", why="programs and libraries of the system")
    for name in ROOT_FOLDERS:
        yield from _list_machine_mounts(Path("/", name))
    yield Mount(kind=MountKind.FILE, source=str(files / "etc"), target="/etc", why="ours: settings without secrets")
    for path in _find_large_settings(tuple(_read_change_time(Path("/etc", name)) for name in ETC_FOLDERS)):
        real, why = os.path.realpath(path), "settings of the system"
        yield Mount(kind=MountKind.RO, source=real, target=str(path), why=why)
    if network and Path("/etc/resolv.conf").exists():
        real = os.path.realpath("/etc/resolv.conf")
        yield Mount(kind=MountKind.RO, source=real, target="/etc/resolv.conf", why="how names are resolved")
    yield Mount(kind=MountKind.DEV, target="/dev", why="null, zero, random and the like")
    yield Mount(kind=MountKind.TMPFS, target="/dev/shm", why="shared memory, gone with the sandbox")  # noqa: S108 - inside
    yield Mount(kind=MountKind.PROC, target="/proc", why="its own processes only, read-only")
    for name in HIDDEN_PROC_FILES if os.geteuid() == 0 else ():
        if Path("/proc", name).exists():
            yield Mount(
                kind=MountKind.FILE, source=str(files / "empty"), target=f"/proc/{name}", why="empty: the kernel's"
            )


def _list_machine_mounts(path: Path) -> Iterator[Mount]:
    """Yield a mount; a link stays a link, so that both names are the same file."""
    if path.is_symlink():
        yield Mount(kind=MountKind.SYMLINK, source=str(path.readlink()), target=str(path), why="the system's")
    elif path.is_dir():
        yield Mount(kind=MountKind.RO, source=str(path), target=str(path), why="the system's")


def _list_settings() -> Iterator[Path]:
    """Skip what other users may not read: programs do not need it."""
    for name in ETC_SETTINGS:
        for path in sorted(Path("/etc").glob(name)):
            with suppress(OSError):  # a link that leads nowhere
                if path.stat().st_mode & stat.S_IROTH:
                    yield path


@lru_cache(maxsize=1)
def _find_large_settings(_changed: tuple[int, ...]) -> tuple[Path, ...]:
    """Search again only after a name was added to or removed from the folders: it takes as long as a git command."""
    return tuple(path for path in _list_settings() if not _is_small(path))


def _read_change_time(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _is_small(path: Path) -> bool:
    if not path.is_dir():
        return path.stat().st_size < MAX_COPIED_BYTES
    entries = list(islice(path.rglob("*"), MAX_COPIED_ENTRIES + 1))
    return len(entries) <= MAX_COPIED_ENTRIES and all(
        entry.is_symlink() or entry.stat().st_size < MAX_COPIED_BYTES for entry in entries
    )


def copy_settings(etc: Path) -> None:
    """Copy the small ones, links as links."""
    for path in _list_settings():
        if _is_small(path):
            below = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
            for each in (path, *sorted(below)):
                _copy_setting(each, etc / each.relative_to("/etc"))


def _copy_setting(path: Path, target: Path) -> None:
    """Copy in one step each: running sandboxes read these files."""
    if path.is_symlink() and (path.parent != Path("/etc") or Path(os.path.realpath(path)).is_relative_to("/usr")):
        _write_link(target, str(path.readlink()) if path.parent != Path("/etc") else os.path.realpath(path))
    elif path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif path.stat().st_mode & stat.S_IROTH:
        write_file(target, path.read_bytes())


def _write_link(path: Path, to: str) -> None:
    """Replace it atomically, like a file: another orchestrator may write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _get_draft(path)
    draft.unlink(missing_ok=True)
    draft.symlink_to(to)
    draft.replace(path)


def _get_draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.draft")


def write_file(path: Path, content: bytes) -> None:
    """Replace the file atomically; readable by every user inside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _get_draft(path)
    draft.write_bytes(content)
    draft.chmod(0o644)
    draft.replace(path)


def build_own_files(*, user: str, uid: int, gid: int, home: str) -> dict[str, str]:
    """Build the files that replace the machine's own; they name no user of the machine."""
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    unmapped = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"
    ours = [] if uid == 0 else [f"{user}:x:{uid}:{gid}:{user}:{home}:{shell}"]
    return {
        "passwd": "\n".join(["root:x:0:0:root:/nonexistent:/usr/sbin/nologin", *ours, unmapped, ""]),
        "group": "\n".join(["root:x:0:", *([f"{user}:x:{gid}:"] if gid else []), "nogroup:x:65534:", ""]),
        "hosts": "127.0.0.1 localhost blueflame\n::1 localhost ip6-localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n",
        "hostname": "blueflame\n",
    }
