"""The service manager: tell systemd that we are ready, alive, or stopping. Without one, nothing is sent."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


def notify_manager(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send a line such as READY=1 to the socket of NOTIFY_SOCKET; a leading @ means an abstract one."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
        connection.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        connection.sendall(text.encode())
        return True
    return False


def find_watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """How often the manager wants to hear from us: half of WATCHDOG_USEC; None if it does not watch this process."""
    usec, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or (pid and pid != str(os.getpid())):
        return None
    return max(int(usec) / 2e6, 0.01)
