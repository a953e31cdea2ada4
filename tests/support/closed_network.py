"""A network namespace with only a loopback device, and a way to run programs in it.

A process holds the namespace open. Listeners are made inside and handed out, so that a server in the test's own process
serves programs in there; nothing leads anywhere else. Works as root and as an ordinary user who may have namespaces.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE_FOLDER = Path(__file__).resolve().parents[2] / "src"
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
THIS_FILE = str(Path(__file__).resolve())
ENTER_NAMESPACES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for path in sys.argv[1].split(","):
    handle = os.open(path, os.O_RDONLY)
    if libc.setns(handle, 0):
        sys.exit(f"cannot enter {path}: {os.strerror(ctypes.get_errno())}")
    os.close(handle)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class ClosedNetwork:
    holder: int
    line: socket.socket
    own_user: bool

    def argv(self, *argv: str) -> list[str]:
        """Build the command line that runs this program inside; it keeps its pid."""
        kinds = ["user", "net"] if self.own_user else ["net"]
        places = ",".join(f"/proc/{self.holder}/ns/{kind}" for kind in kinds)
        return [sys.executable, "-I", "-S", "-c", ENTER_NAMESPACES, places, *argv]

    def listen(self) -> socket.socket:
        """Open a listener on 127.0.0.1 of that network, at a free port."""
        self.line.sendall(b"l")
        said, handles, _, _ = socket.recv_fds(self.line, 1, 1)
        assert said == b"d", "the process that holds the network has ended"
        return socket.socket(fileno=handles[0])


@contextmanager
def closed_network() -> Iterator[ClosedNetwork]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = [sys.executable, "-S", THIS_FILE, str(theirs.fileno())]
        environ = {"PYTHONPATH": str(SOURCE_FOLDER), "PATH": os.defpath}
        with subprocess.Popen(
            argv, pass_fds=[theirs.fileno()], env=environ, stderr=subprocess.PIPE, text=True
        ) as holder:
            theirs.close()
            try:
                said = ours.recv(1)
                if said not in {b"u", b"r"}:
                    assert holder.stderr is not None
                    raise OSError(f"cannot make a network: {holder.stderr.read().strip()}")
                yield ClosedNetwork(holder.pid, ours, said == b"u")
            finally:
                ours.close()  # which ends it
                holder.wait()


@cache
def explain_unavailable() -> str:
    """Say why no closed network can be created here; empty when it can."""
    try:
        with closed_network():
            return ""
    except OSError as error:
        return str(error)


def hold_network(line: socket.socket) -> None:
    """Create the network, then open listeners until the test closes its end."""
    from blueflame.warden.namespaces import bring_up_loopback, open_listener, send_listeners

    own_user = _unshare_network()
    bring_up_loopback()
    line.sendall(b"u" if own_user else b"r")
    while line.recv(1) == b"l":
        with open_listener(0) as door:
            send_listeners(line, [door])


def _unshare_network() -> bool:
    """Enter a new network namespace; return whether that took a user namespace."""
    from blueflame.warden.namespaces import map_user

    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if uid == 0 and libc.unshare(CLONE_NEWNET) == 0:
        return False
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        sys.exit(os.strerror(ctypes.get_errno()))
    map_user(uid, gid)
    return True


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given, suppress(KeyboardInterrupt):
        hold_network(given)
