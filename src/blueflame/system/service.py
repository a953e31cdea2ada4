"""The service manager: tell systemd that we are ready, alive, or stopping; the unit that it runs.

Without a manager nothing is sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


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


def build_unit(argv: Sequence[str], *, description: str, path: str, environment_file: Path) -> str:
    """A systemd user unit that restarts the program and, at a stop, ends it alone: sessions and agents go on."""
    return f"""\
[Unit]
Description={_escape_unit(description)}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={" ".join(quote_unit(word) for word in argv)}
Environment={_quote_value(f"PATH={path}")}
EnvironmentFile=-{_escape_unit(str(environment_file))}
WatchdogSec=120
Restart=on-failure
RestartSec=5
TimeoutStopSec=30
KillMode=process

[Install]
WantedBy=default.target
"""


def _escape_unit(text: str) -> str:
    return text.replace("%", "%%")


def quote_unit(word: str) -> str:
    """A word of a command: systemd splits at blanks and expands % and $, also within quotes."""
    return _quote_value(word).replace("$", "$$")


def _quote_value(text: str) -> str:
    """A value in which $ has no meaning."""
    escaped = _escape_unit(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
