"""Which walls this machine can build: every one of them tried, none assumed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from blueflame.model.sandbox import BubblewrapFeatures, Mount, MountKind, Network, SandboxLevel, SandboxSpec
from blueflame.sandbox import seccomp
from blueflame.sandbox.bwrap import bwrap_argv

OLDEST = (0, 4, 0)  # --unshare-cgroup-try, --remount-ro, --cap-drop
PATIENCE = 20.0
OFF = "or write `sandbox: {level: off}` into blueflame.yaml if you accept agents without walls"
RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")
IS_FILTERED = 'while read -r key value; do [ "$key $value" = "Seccomp: 2" ] && exit 0; done </proc/self/status; exit 9'
MOST = Path("/proc/sys/user/max_user_namespaces")


class Problem(NamedTuple):
    guard: str
    words: str  # what is missing, and what to do about it


class Tried(NamedTuple):
    code: int
    said: str


Groups: TypeAlias = Callable[[], tuple[bool, bool]]
"""Whether control groups hold memory, and whether they hold the number of processes (warden/cgroup.available)."""


def available(level: str, groups: Groups) -> tuple[Problem, ...]:
    """What keeps this machine from holding the level; nothing when it can. Tried once in the life of a process."""
    if level == SandboxLevel.OFF:
        return ()
    found = _standard()
    return found if found or level == SandboxLevel.STANDARD else tuple(_strict(*groups()))


def highest(groups: Groups) -> SandboxLevel:
    """The level that this machine can hold."""
    if available(SandboxLevel.STANDARD, groups):
        return SandboxLevel.OFF
    return SandboxLevel.STANDARD if available(SandboxLevel.STRICT, groups) else SandboxLevel.STRICT


@lru_cache(maxsize=1)
def bubblewrap() -> BubblewrapFeatures:
    """The one on PATH and what it understands; a guess where there is none, which `available` says."""
    program = shutil.which("bwrap") or "/usr/bin/bwrap"
    said = _run([program, "--help"]).said
    return BubblewrapFeatures(
        program=program,
        disable_userns="--disable-userns" in said and _works(program, disable_userns=True),
        size="--size" in said,
    )


def _works(program: str, *, disable_userns: bool) -> bool:
    return _try(BubblewrapFeatures(program=program, disable_userns=disable_userns, size=False), _small_box()).code == 0


@lru_cache(maxsize=1)
def _standard() -> tuple[Problem, ...]:
    if sys.platform == "darwin":
        missing = Problem("sandbox", f"/usr/bin/sandbox-exec is missing: use a macOS that has it, {OFF}")
        return () if os.access("/usr/bin/sandbox-exec", os.X_OK) else (missing,)
    if sys.platform != "linux":
        return (Problem("sandbox", f"there is no sandbox for {sys.platform}: use Linux or macOS, {OFF}"),)
    return tuple(each for each in (_installed(), _namespaces(), _filters()) if each)[:1]


def _installed() -> Problem | None:
    program = shutil.which("bwrap")
    if program is None:
        advice = "install it: `apt-get install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`"
        return Problem("bubblewrap", f"bubblewrap (bwrap) is not installed; {advice}, {OFF}")
    said = _run([program, "--version"]).said
    version = tuple(map(int, re.findall(r"\d+", said)[:3]))
    if version < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return Problem("bubblewrap", f"{program} is {said.strip() or 'broken'}; install {needed} or newer, {OFF}")
    return None


def _namespaces() -> Problem | None:
    """A root of its own, own processes, no network, no capabilities: by building just that."""
    tried = _try(bubblewrap(), _small_box())
    if tried.code == 0:
        return None
    return Problem("namespaces", f"bubblewrap cannot build a box here ({tried.said.strip()[:200]}); {_advice()}, {OFF}")


def _advice() -> str:
    if os.geteuid() != 0 and _number(RESTRICTED) == 1:
        return (
            "AppArmor keeps ordinary users from it: give bwrap a profile with userns (docs/reference/sandbox.md), "
            "or `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        )
    if os.geteuid() != 0 and _number(CLONE) == 0:
        return "allow it: `sudo sysctl kernel.unprivileged_userns_clone=1`"
    if _number(MOST) == 0:
        return "allow it: `sudo sysctl user.max_user_namespaces=10000`"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return (
            "this is a container: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
        )
    return "allow user namespaces for yourself"


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _filters() -> Problem | None:
    """That the kernel takes our program, and says of the process inside that it is filtered."""
    try:
        program = seccomp.program(platform.machine())
    except KeyError:
        return Problem(
            "seccomp", f"there is no filter of system calls for {platform.machine()} machines yet; {OFF[3:]}"
        )
    with tempfile.TemporaryFile() as file:
        file.write(program)
        file.flush()
        file.seek(0)
        tried = _try(bubblewrap(), replace(_small_box(), seccomp=True), filter_fd=file.fileno())
    if tried.code == 0:
        return None
    return Problem(
        "seccomp", f"the kernel does not take our filter of system calls ({tried.said.strip()[:200]}); {OFF[3:]}"
    )


def _strict(memory: bool, processes: bool) -> Iterator[Problem]:
    """Beside all the rest, the kernel itself must hold these two; at level standard they are watched."""
    advice = (
        "start Blue Flame in a delegated control group (`systemd-run --user --scope -p Delegate=yes blueflame ...`), "
        "or use level standard, where they are watched and whoever takes too much is ended"
    )
    missing = [what for what, held in (("memory", memory), ("the number of processes", processes)) if not held]
    if missing:
        yield Problem("control groups", f"the kernel cannot hold {' and '.join(missing)} of an agent here; {advice}")


def _small_box() -> SandboxSpec:
    mounts = [Mount(kind=MountKind.RO, source="/usr", target="/usr")]
    for name in ("bin", "lib", "lib64", "nix"):
        path = Path("/", name)
        if path.is_symlink():
            mounts.append(Mount(kind=MountKind.SYMLINK, source=os.readlink(path), target=str(path)))  # noqa: PTH115 - as is
        elif path.is_dir():
            mounts.append(Mount(kind=MountKind.RO, source=str(path), target=str(path)))
    rest = (Mount(kind=MountKind.DEV, target="/dev"), Mount(kind=MountKind.PROC, target="/proc"))
    return SandboxSpec(cwd="/", mounts=(*mounts, *rest), network=Network.NONE, seccomp=False, uid=os.geteuid() or 1000)


def _try(engine: BubblewrapFeatures, box: SandboxSpec, filter_fd: int | None = None) -> Tried:
    argv = list(bwrap_argv(box, engine))
    if filter_fd is not None:
        argv[argv.index("--seccomp") + 1] = str(filter_fd)
    return _run(
        [*argv, "/bin/sh", "-c", "exit 0" if filter_fd is None else IS_FILTERED],
        keep=() if filter_fd is None else (filter_fd,),
    )


def _run(argv: list[str], keep: tuple[int, ...] = ()) -> Tried:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, pass_fds=keep, check=False, env={}
        )
    except OSError as e:
        return Tried(127, e.strerror or str(e))
    except subprocess.TimeoutExpired:
        return Tried(124, "it does not end")
    return Tried(done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace"))
