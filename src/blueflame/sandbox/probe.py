"""Probe which parts of the sandbox work on this machine."""

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
from blueflame.sandbox.bwrap import build_bwrap_argv

MIN_VERSION = (0, 4, 0)  # --unshare-cgroup-try, --remount-ro, --cap-drop
PROBE_TIMEOUT = 20.0
LEVEL_OFF_HINT = "or write `sandbox: {level: off}` into blueflame.yaml if you accept agents without a sandbox"
APPARMOR_RESTRICTION = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
USERNS_CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")
FILTER_CHECK_SCRIPT = (
    'while read -r key value; do [ "$key $value" = "Seccomp: 2" ] && exit 0; done </proc/self/status; exit 9'
)
MAX_USER_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")


class SandboxProblem(NamedTuple):
    guard: str
    words: str  # the message


class SandboxProbeResult(NamedTuple):
    code: int
    output: str


CgroupProbe: TypeAlias = Callable[[], tuple[bool, bool]]
"""Whether control groups hold memory, and whether they hold the number of processes (warden/cgroup.available)."""


def find_problems(level: str, groups: CgroupProbe) -> tuple[SandboxProblem, ...]:
    """List what prevents the level on this machine. Probed once per process."""
    if level == SandboxLevel.OFF:
        return ()
    found = _find_standard_problems()
    return found if found or level == SandboxLevel.STANDARD else tuple(_find_strict_problems(*groups()))


def find_supported_level(groups: CgroupProbe) -> SandboxLevel:
    """Return the highest level that works on this machine."""
    if find_problems(SandboxLevel.STANDARD, groups):
        return SandboxLevel.OFF
    return SandboxLevel.STANDARD if find_problems(SandboxLevel.STRICT, groups) else SandboxLevel.STRICT


@lru_cache(maxsize=1)
def find_bubblewrap() -> BubblewrapFeatures:
    """Find bwrap on PATH and its features; a default path if it is missing, which `find_problems` reports."""
    program = shutil.which("bwrap") or "/usr/bin/bwrap"
    text = _run_program([program, "--help"]).output
    strict = BubblewrapFeatures(program=program, disable_userns=True, size=False)
    return BubblewrapFeatures(
        program=program,
        disable_userns="--disable-userns" in text
        and (_holds_everything(program) or _run_probe(strict, _build_probe_sandbox()).code == 0),
        size="--size" in text,
    )


@lru_cache(maxsize=1)
def _holds_everything(program: str) -> bool:
    """Try all that is probed below in one sandbox; only where it fails, the cause is searched for."""
    if platform.machine().lower() not in seccomp.ARCHITECTURES:
        return False
    return _try_filter(BubblewrapFeatures(program=program, disable_userns=True, size=False)).code == 0


@lru_cache(maxsize=1)
def _find_standard_problems() -> tuple[SandboxProblem, ...]:
    if sys.platform != "linux":
        system = {"darwin": "macOS"}.get(sys.platform, sys.platform)
        advice = "run it in a Linux virtual machine or container; plans, reports and views work here"
        return (SandboxProblem("sandbox", f"agents cannot be sandboxed on {system}: {advice}, {LEVEL_OFF_HINT}"),)
    if (problem := _check_installed()) is not None:
        return (problem,)
    if find_bubblewrap().disable_userns and _holds_everything(find_bubblewrap().program):
        return ()
    return tuple(each for each in (_check_namespaces(), _check_seccomp()) if each)[:1]


def _check_installed() -> SandboxProblem | None:
    program = shutil.which("bwrap")
    if program is None:
        advice = "install it: `apt-get install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`"
        return SandboxProblem("bubblewrap", f"bubblewrap (bwrap) is not installed; {advice}, {LEVEL_OFF_HINT}")
    text = _run_program([program, "--version"]).output
    version = tuple(map(int, re.findall(r"\d+", text)[:3]))
    if version < MIN_VERSION:
        needed = ".".join(map(str, MIN_VERSION))
        return SandboxProblem(
            "bubblewrap", f"{program} is {text.strip() or 'broken'}; install {needed} or newer, {LEVEL_OFF_HINT}"
        )
    return None


def _check_namespaces() -> SandboxProblem | None:
    """Start a sandbox with a new root, own processes, no network and no capabilities."""
    tried = _run_probe(find_bubblewrap(), _build_probe_sandbox())
    if tried.code == 0:
        return None
    return SandboxProblem(
        "namespaces",
        f"the sandbox is unavailable: bubblewrap failed ({tried.output.strip()[:200]}); "
        f"{_choose_advice()}, {LEVEL_OFF_HINT}",
    )


def _choose_advice() -> str:
    if os.geteuid() != 0 and _read_number(APPARMOR_RESTRICTION) == 1:
        return (
            "AppArmor restricts user namespaces: give bwrap a profile with userns (docs/reference/sandbox.md), "
            "or `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        )
    if os.geteuid() != 0 and _read_number(USERNS_CLONE) == 0:
        return "allow it: `sudo sysctl kernel.unprivileged_userns_clone=1`"
    if _read_number(MAX_USER_NAMESPACES) == 0:
        return "allow it: `sudo sysctl user.max_user_namespaces=10000`"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return (
            "this is a container: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
        )
    return "allow user namespaces for yourself"


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _check_seccomp() -> SandboxProblem | None:
    """Check that the kernel accepts our filter and reports the process inside as filtered."""
    if platform.machine().lower() not in seccomp.ARCHITECTURES:
        return SandboxProblem(
            "seccomp",
            f"the sandbox is unavailable: there is no seccomp filter for {platform.machine()}; {LEVEL_OFF_HINT[3:]}",
        )
    tried = _try_filter(find_bubblewrap())
    if tried.code == 0:
        return None
    return SandboxProblem(
        "seccomp",
        f"the sandbox is unavailable: the kernel does not accept our seccomp filter ({tried.output.strip()[:200]}); "
        f"{LEVEL_OFF_HINT[3:]}",
    )


def _try_filter(engine: BubblewrapFeatures) -> SandboxProbeResult:
    with tempfile.TemporaryFile() as file:
        file.write(seccomp.build_program(platform.machine()))
        file.flush()
        file.seek(0)
        return _run_probe(engine, replace(_build_probe_sandbox(), seccomp=True), filter_fd=file.fileno())


def _find_strict_problems(memory: bool, processes: bool) -> Iterator[SandboxProblem]:
    """At level strict the kernel must limit these; at level standard the warden watches them."""
    advice = (
        "start Blue Flame in a delegated control group (`systemd-run --user --scope -p Delegate=yes blueflame ...`), "
        "or use level standard, where the warden watches them and ends an agent that exceeds them"
    )
    missing = [what for what, held in (("memory", memory), ("the number of processes", processes)) if not held]
    if missing:
        yield SandboxProblem(
            "control groups", f"the kernel cannot limit {' and '.join(missing)} of an agent here; {advice}"
        )


def _build_probe_sandbox() -> SandboxSpec:
    mounts = [Mount(kind=MountKind.RO, source="/usr", target="/usr")]
    for name in ("bin", "lib", "lib64", "nix"):
        path = Path("/", name)
        if path.is_symlink():
            mounts.append(Mount(kind=MountKind.SYMLINK, source=os.readlink(path), target=str(path)))  # noqa: PTH115 - as is
        elif path.is_dir():
            mounts.append(Mount(kind=MountKind.RO, source=str(path), target=str(path)))
    rest = (Mount(kind=MountKind.DEV, target="/dev"), Mount(kind=MountKind.PROC, target="/proc"))
    return SandboxSpec(cwd="/", mounts=(*mounts, *rest), network=Network.NONE, seccomp=False, uid=os.geteuid() or 1000)


def _run_probe(engine: BubblewrapFeatures, spec: SandboxSpec, filter_fd: int | None = None) -> SandboxProbeResult:
    argv = list(build_bwrap_argv(spec, engine))
    if filter_fd is not None:
        argv[argv.index("--seccomp") + 1] = str(filter_fd)
    return _run_program(
        [*argv, "/bin/sh", "-c", "exit 0" if filter_fd is None else FILTER_CHECK_SCRIPT],
        keep=() if filter_fd is None else (filter_fd,),
    )


def _run_program(argv: list[str], keep: tuple[int, ...] = ()) -> SandboxProbeResult:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT,
            pass_fds=keep,
            check=False,
            env={},
        )
    except OSError as e:
        return SandboxProbeResult(127, e.strerror or str(e))
    except subprocess.TimeoutExpired:
        return SandboxProbeResult(124, "it did not end")
    return SandboxProbeResult(done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace"))
