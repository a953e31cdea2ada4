"""Read /proc, for the warden and for the orchestrator."""

from __future__ import annotations

from blueflame.system.fd import read_file


def read_boot_id() -> str:
    """Return the id of this boot; empty without /proc."""
    try:
        return read_file("/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:
        return ""


def read_stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on; the name before it may hold blanks and parentheses."""
    stat = read_file(f"/proc/{pid}/stat")
    return stat[stat.rindex(b")") + 2 :].split()


def is_zombie(stat: list[bytes]) -> bool:
    return stat[0] in (b"Z", b"X", b"x")


def is_stopped(stat: list[bytes]) -> bool:
    """Whether it was stopped, by SIGSTOP or by a debugger."""
    return stat[0] in (b"T", b"t")
