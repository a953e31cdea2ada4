"""Namespaces around the sandbox: everything in it dies together, and its network has only listeners of the warden.

When bubblewrap is killed in its first milliseconds, its child hangs for ever or runs the payload. So bubblewrap itself
is the first process of a pid namespace, created in the same call as the process: when it dies, the kernel kills
everything inside. It has a mount namespace as well, with the /proc of that pid namespace.

The network namespace is created in the same call. Before the child executes bubblewrap it brings up the loopback
device, listens, and sends the listening sockets to the warden. So the listeners exist before the sandbox starts, and no
process or socket file of the warden is inside. An ordinary user needs a user namespace that maps the user to itself.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
from contextlib import suppress

from blueflame.system.fd import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_SLAVE = 0x2, 0x4, 0x8, 0x4000, 0x80000
CLONE_SYSCALLS = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "ppc64le": 120, "armv7l": 120, "i686": 120}
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
BACKLOG = 128
RECEIVE_TIMEOUT = 30.0  # seconds for the child to send its listeners


def fork_into_namespaces(*, net: bool) -> tuple[int, bool]:
    """Fork into new namespaces; the second value is True if one of them is a user namespace.

    Python's own precautions around a fork are for threads; a warden has one.
    """
    flags = CLONE_NEWNS | CLONE_NEWPID | (CLONE_NEWNET if net else 0)
    if os.geteuid() == 0:
        pid = _call_clone(flags)
        if pid >= 0:
            return pid, False
        if ctypes.get_errno() != errno.EPERM:  # root of a container may still create a user namespace
            raise _build_os_error()
    pid = _call_clone(flags | CLONE_NEWUSER)
    if pid < 0:
        raise _build_os_error()
    return pid, True


def _call_clone(flags: int) -> int:
    """Call clone with the interpreter's lock held: the child must own it."""
    number = CLONE_SYSCALLS.get(os.uname().machine)
    if number is None:
        ctypes.set_errno(errno.ENOSYS)
        return -1
    syscall = ctypes.PyDLL(None, use_errno=True).syscall
    syscall.argtypes, syscall.restype = [ctypes.c_long] * 6, ctypes.c_long
    return int(syscall(number, flags | signal.SIGCHLD, 0, 0, 0, 0))


def _build_os_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def map_user(uid: int, gid: int) -> None:
    """Map the user to itself, in the child."""
    with suppress(FileNotFoundError):  # kernels before 3.19
        write_file("/proc/self/setgroups", "deny")
    write_file("/proc/self/uid_map", f"{uid} {uid} 1")
    write_file("/proc/self/gid_map", f"{gid} {gid} 1")


def mount_proc() -> None:
    """Mount the /proc of the new pid namespace, in the child, and for it only.

    Bubblewrap opens /proc/2: its own child, by its number inside. In the /proc of the warden that is another process,
    or in a container often none. Where the mount is forbidden, the one of the warden stays.
    """
    mount = ctypes.CDLL(None).mount
    mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
    if mount(None, b"/", None, MS_REC | MS_SLAVE, None) == 0:
        mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def open_listener(port: int) -> socket.socket:
    """Listen on the loopback address; port 0 lets the kernel choose a free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def send_listeners(line: socket.socket, listeners: Sequence[socket.socket]) -> None:
    handles = array.array("i", [listener.fileno() for listener in listeners])
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handles)] if listeners else []
    line.sendmsg([b"d"], rights)


def receive_listeners(line: socket.socket, count: int) -> list[socket.socket] | None:
    """Return the listeners of the child, not inheritable; None if it died or sent the wrong number."""
    size = socket.CMSG_SPACE(max(count, 1) * struct.calcsize("i"))
    line.settimeout(RECEIVE_TIMEOUT)
    try:
        data, rights, _, _ = line.recvmsg(1, size, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    except OSError:  # timed out, or the child is gone
        return None
    finally:
        line.settimeout(None)
    listeners = [socket.socket(fileno=handle) for handle in _parse_handles(rights)]
    if data == b"d" and len(listeners) == count:
        return listeners
    for listener in listeners:
        listener.close()
    return None


def _parse_handles(rights: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return found.tolist()
