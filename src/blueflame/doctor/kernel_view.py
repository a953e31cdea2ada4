"""What the kernel says of a process in a box, looked at from outside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    capabilities: int  # of all kinds together
    filtered: bool  # by seccomp
    no_new_privileges: bool
    user_namespace: str  # "" when it cannot be read
    kernel_settings_read_only: bool
    cpu_seconds: str  # the limit: a number, or unlimited


def sight_of(pid: int) -> Sight | None:
    """None when there is nothing to be seen: it has gone, or this is no Linux."""
    try:
        status = dict(_pairs(Path(f"/proc/{pid}/status").read_text("utf-8", "replace")))
        mounts = Path(f"/proc/{pid}/mountinfo").read_text("utf-8", "replace")
        return Sight(
            capabilities=sum(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")),
            filtered=status.get("Seccomp") == "2",
            no_new_privileges=status.get("NoNewPrivs") == "1",
            user_namespace=_namespace(pid),
            kernel_settings_read_only=_is_read_only(mounts, "/proc"),
            cpu_seconds=_limit(Path(f"/proc/{pid}/limits").read_text("utf-8", "replace"), "Max cpu time"),
        )
    except (OSError, KeyError, ValueError):
        return None


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value.strip()) for name, _, value in (line.partition(":") for line in text.splitlines())]


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/user").readlink())
    except OSError:
        return ""


def _is_read_only(mounts: str, place: str) -> bool:
    """The last mount on a place is the one that holds."""
    options = [words[5] for line in mounts.splitlines() if len(words := line.split()) > 5 and words[4] == place]
    return bool(options) and "ro" in options[-1].split(",")


def _limit(limits: str, name: str) -> str:
    """The hard one: the other can be raised up to it."""
    words = next((line.removeprefix(name).split() for line in limits.splitlines() if line.startswith(name)), [])
    return words[1] if len(words) > 1 else ""
