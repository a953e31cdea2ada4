"""Describe a sandbox as a profile for sandbox-exec on macOS."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.model.sandbox import (
    Mount,
    MountKind,
    Network,
    SandboxSpec,
)
from blueflame.sandbox.bwrap import LOOPBACK_PORTS

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


def build_seatbelt_profile(spec: SandboxSpec) -> str:
    """Build the profile for sandbox-exec on macOS. It has no mounts: paths stay as they are, and HOME and TMPDIR point
    to the private folders. It has no process namespaces; memory is only watched (docs/reference/sandbox.md)."""
    lines = [
        *SEATBELT_HEADER,
        f"(allow file-read* {_format_subpaths(SEATBELT_READABLE)})",
        f"(allow file-write* {_format_subpaths(SEATBELT_DEVICES)})",
        *(rule for mount in spec.mounts for rule in _list_mount_rules(mount)),  # the last matching rule decides
        *_list_network_rules(spec.network),
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


def _list_network_rules(network: Network) -> list[str]:
    if network is Network.HOST:
        return ["(allow network*)", "(allow system-socket)"]
    if network is Network.NONE:
        return ["(deny network*)"]
    ports = " ".join(f'(remote ip "localhost:{port}")' for port in LOOPBACK_PORTS)
    return ["(deny network*)", f"(allow network-outbound {ports})"]


def _format_subpaths(paths: Sequence[str]) -> str:
    return " ".join(f"(subpath {_quote_text(path)})" for path in dict.fromkeys(paths))


def _quote_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
