"""What launch.json says of the walls around an agent: the box, the watcher, the way out. Read strictly.

A key that is not known here may be a wall that somebody counts on, so that it is refused and nothing is started.
"""

from __future__ import annotations

from blueflame.text.strict_json import (
    check_keys,
    read_absolute_path,
    read_integer,
    read_object,
    read_string,
    read_strings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NETWORKS = ("none", "doors", "host")
DIALECTS = ("claude", "codex", "gemini")  # as in policy/dialects, which a warden that watches nobody does not load
WATCH_TEXT_KEYS = ("policy", "audit", "agent", "hook", "shfmt")


class SandboxOptions:
    """`argv` is the box's own command, ending where the program's follows."""

    __slots__ = ("argv", "net", "seccomp")

    def __init__(self, read: Mapping[str, Any]) -> None:
        check_keys(read, ("argv", "seccomp", "net"), "sandbox")
        self.argv = read_strings(read.get("argv"), "sandbox: argv")
        self.seccomp = "" if read.get("seccomp") is None else read_absolute_path(read["seccomp"], "sandbox: seccomp")
        self.net = str(read.get("net"))
        if self.net not in NETWORKS:
            raise ValueError(f"sandbox: net is {read.get('net')!r:.80}, not one of {', '.join(NETWORKS)}")


def parse_sandbox(value: object) -> SandboxOptions | None:
    return None if value is None else SandboxOptions(read_object(value, "sandbox"))


def parse_watch(value: object) -> dict[str, Any] | None:
    """As it stands, for the hook_server, once everything is there and of the right kind."""
    if value is None:
        return None
    read = read_object(value, "watch")
    check_keys(read, ("port", "mounts", "dialect", *WATCH_TEXT_KEYS), "watch")
    read_integer(read.get("port"), "watch: port", most=65535, least=1)
    for name in WATCH_TEXT_KEYS:
        read_string(read.get(name), f"watch: {name}")
    read_absolute_path(read["hook"], "watch: hook")
    if read.get("dialect", DIALECTS[0]) not in DIALECTS:
        raise ValueError(f"watch: dialect is {read['dialect']!r:.80}, not one of {', '.join(DIALECTS)}")
    mounts = read_object(read.get("mounts", {}), "watch: mounts")
    for inside, outside in mounts.items():
        read_absolute_path(inside, "watch: mounts")
        read_absolute_path(outside, f"watch: mounts: {inside}")
    return read


def parse_gateway(value: object) -> dict[str, Any] | None:
    """As it stands, for the gateway, which looks closer at the hosts and at what else it is told."""
    if value is None:
        return None
    read = read_object(value, "gateway")
    check_keys(read, ("port", "hosts", "allow_private", "model"), "gateway")
    read_integer(read.get("port"), "gateway: port", most=65535, least=1)
    hosts = read.get("hosts")
    if not isinstance(hosts, list) or not all(isinstance(host, str) and host for host in hosts):
        raise ValueError(f"gateway: hosts must be a list of names, not {hosts!r:.80}")
    if read.get("model") is not None:
        read_object(read["model"], "gateway: model")
    return read


def parse_terminal(value: object) -> tuple[int, int] | None:
    """Rows and columns that an agent's own terminal has until somebody connects with another size."""
    if value is None:
        return None
    read = read_object(value, "terminal")
    check_keys(read, ("rows", "columns"), "terminal")
    rows, columns = (
        read_integer(read.get(name), f"terminal: {name}", most=1000, least=1) for name in ("rows", "columns")
    )
    return rows, columns
