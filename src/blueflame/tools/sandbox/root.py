"""The smallest system in which programs run: what of the machine's own folders is there inside, and what is not.

No /run, /home, /root, /sys or /var: a read-only mount does not keep anybody from a socket below it, and what is not
there cannot be read, listed or connected to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from blueflame.model.box import TMP, Kind, Mount

ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies"),
    *("pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf"),
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf"),  # not all of ssl: its private keys are beside them
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-*.path"),
    *("localtime", "timezone", "locale.alias", "locale.conf", "terminfo", "inputrc"),
    *("mime.types", "magic", "magic.mime", "protocols", "services", "rpc", "ethertypes", "networks", "gai.conf"),
    *("os-release", "lsb-release", "*-release", "debian_version"),
    *("java*", "maven", "perl", "php", "python*", "R", "fonts", "xml", "sgml", "ImageMagick*", "OpenCL", "vulkan"),
)
HIDDEN_IN_PROC = (
    *("kcore", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "latency_stats", "vmallocinfo", "slabinfo"),
    *("kpagecount", "kpageflags", "kpagecgroup", "sysrq-trigger", "allocinfo"),
)
# For a caller who is root, those inside are the owner of these files, and need no capability to write to them.
# bubblewrap covers them only when it could write to the *folder* (tried: core_pattern of the machine was changed).
READ_ONLY_IN_PROC = ("sys", "irq", "bus", "driver", "tty", "pressure", "mtrr", "dynamic_debug", "mpt", "ide", "asound")
EMPTY_IN_PROC = ("acpi", "scsi", "fs")


def system_mounts(files: Path, *, network: bool) -> Iterator[Mount]:
    """`files` holds our own passwd, hosts and so on; `network`: the machine's network is there, and its resolver."""
    yield Mount(kind=Kind.RO, source="/usr", target="/usr", why="programs and libraries of the system")
    for name in ROOT_FOLDERS:
        yield from _as_on_the_machine(Path("/", name), "the system's")
    for name in ETC:
        for found in sorted(Path("/etc").glob(name)):
            yield from _as_on_the_machine(found, "settings of the system, nothing secret")
    for name in ("passwd", "group", "hosts", "nsswitch.conf", "hostname"):
        yield Mount(
            kind=Kind.FILE, source=str(files / name), target=f"/etc/{name}", why="ours: only the agent is in it"
        )
    if network:
        yield from _as_on_the_machine(Path("/etc/resolv.conf"), "how names are resolved")
    yield Mount(kind=Kind.DEV, target="/dev", why="null, zero, random and the like")
    yield Mount(kind=Kind.TMPFS, target="/dev/shm", why="shared memory, gone with the box")  # noqa: S108 - inside
    yield Mount(kind=Kind.PROC, target="/proc", why="its own processes only")
    yield from _proc(files)
    yield Mount(kind=Kind.SYMLINK, source=TMP, target="/var/tmp", why="the private /tmp")  # noqa: S108 - inside


def _proc(files: Path) -> Iterator[Mount]:
    for name in HIDDEN_IN_PROC:
        if Path("/proc", name).exists():
            yield Mount(kind=Kind.FILE, source=str(files / "empty"), target=f"/proc/{name}", why="empty: the kernel's")
    for name in READ_ONLY_IN_PROC:
        if Path("/proc", name).exists():
            yield Mount(kind=Kind.RO, source=f"/proc/{name}", target=f"/proc/{name}", why="the kernel's settings")
    for name in EMPTY_IN_PROC:
        if Path("/proc", name).is_dir():
            yield Mount(kind=Kind.EMPTY, target=f"/proc/{name}", why="the kernel's")


def _as_on_the_machine(path: Path, why: str) -> Iterator[Mount]:
    """A link stays one when it leads to what is inside, so that both of its names are the same thing."""
    try:
        real = path.resolve(strict=True)
        readable = stat.S_IMODE(real.stat().st_mode) & 0o004
    except OSError:  # not there, or a link that leads nowhere
        return
    if not readable and not str(path).startswith("/etc/resolv"):
        return  # what others may not read is no setting that programs need
    if path.is_symlink() and real.is_relative_to("/usr"):
        link = str(path.readlink()) if path.parent == Path("/") else str(real)
        yield Mount(kind=Kind.SYMLINK, source=link, target=str(path), why=why)
    else:
        yield Mount(kind=Kind.RO, source=str(real), target=str(path), why=why)


def own_files(*, user: str, uid: int, gid: int, home: str) -> dict[str, str]:
    """What the box has in the place of the machine's files: nobody of the machine is named in them."""
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"
    ours = [] if uid == 0 else [f"{user}:x:{uid}:{gid}:{user}:{home}:{shell}"]
    return {
        "passwd": "\n".join(["root:x:0:0:root:/nonexistent:/usr/sbin/nologin", *ours, nobody, ""]),
        "group": "\n".join(["root:x:0:", *([f"{user}:x:{gid}:"] if gid else []), "nogroup:x:65534:", ""]),
        "hosts": "127.0.0.1 localhost blueflame\n::1 localhost ip6-localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n",
        "hostname": "blueflame\n",
        "empty": "",
    }
