"""Run the probes in sandboxes, and gather the evidence.

The sandboxes are built and started as an agent's are, by the same warden; only their limits are tiny. The outcome is
observed from outside: what a probe itself reports counts only when it says that it got through.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from blueflame.agents.hook import HOOK_VARIABLE, PORT_VARIABLE, find_hook
from blueflame.doctor.fixtures import (
    PLANTED_VARIABLES,
    PROBE_TIMEOUT,
    PROBES_FILE,
    SYSTEM_FOLDERS,
    ProbeFixture,
    ProbeRun,
    write_file,
)
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ProcessFailed, Refused
from blueflame.model.sandbox import MountKind, Network, SandboxLevel, SandboxSpec
from blueflame.model.settings.permissions import PermissionSettings, ValidationSettings
from blueflame.orchestrator.engine.interface import ProcessOutcome
from blueflame.orchestrator.engine.start_warden import build_python_argv, build_warden_environment
from blueflame.policy.compile import compile_policy
from blueflame.sandbox.build import SandboxContext, SandboxRequest
from blueflame.sandbox.bwrap import LOOPBACK_PORTS
from blueflame.sandbox.prepare import prepare_sandbox
from blueflame.system.process import BackgroundProcess, run, start_background
from blueflame.telemetry.audit import Audit, read_audit
from blueflame.warden.resource_limits import read_free_mb
from blueflame.watcher.policy_file import find_shfmt, save_policy

TINY_LIMITS: Mapping[str, int] = {
    "max_cpu_seconds": 1,
    "max_memory_mb": 64,
    "max_file_size_mb": 1,
    "max_open_files": 64,
    "max_processes": 24,
    "min_free_disk_mb": 0,
}
PROBE_DEMANDS = {"memory_mb": 160, "children": 64, "files": 128, "cpu": 2.0}
"""What the probes use: more than the limits allow, and little enough for any machine."""
POLL_SECONDS = 0.02
WARDEN_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from blueflame.warden.main import main; "
    "raise SystemExit(main(sys.argv[2:]))"
)


def start_probe_run(
    fixture: ProbeFixture, name: str, role: str, *, tries: Sequence[str] = (), watched: bool = False,
    limits: Mapping[str, int] | None = None, handles: Sequence[int] = (),
) -> ProbeRun:  # fmt: skip
    checkout, folder = fixture.root / "main" / ".trees" / name, fixture.root / "attempts" / name
    for place in (checkout, folder):
        place.mkdir(parents=True)
    write_file(checkout / "README.md", "# sample\n")
    shutil.copyfile(PROBES_FILE, checkout / PROBES_FILE.name)
    box, launch = _build_launch(fixture, checkout, folder, watched=watched, limits=limits or {})
    write_file(checkout / "orders.json", json.dumps(_build_orders(fixture, checkout, folder, tries)))
    argv = [sys.executable, "-I", "-S", "-E", str(checkout / PROBES_FILE.name), str(checkout / "orders.json"), role]
    write_file(folder / "launch.json", json.dumps({**launch, "attempt": f"doctor-{name}", "argv": argv}))
    probe_run = ProbeRun(checkout=checkout, folder=folder, box=box, warden=_start_warden(fixture, folder, handles))
    fixture.runs.append(probe_run)
    return probe_run


def _start_warden(fixture: ProbeFixture, folder: Path, handles: Sequence[int]) -> BackgroundProcess:
    """Start a warden as a program, with open files and secrets in its environment."""
    env = build_warden_environment() | {name: fixture.build_secret(name) for name in PLANTED_VARIABLES}
    argv = build_python_argv(WARDEN_CODE, str(folder))
    return start_background(argv, env=env, log=folder / "warden.log", handles=handles)


def _build_orders(fixture: ProbeFixture, checkout: Path, folder: Path, tries: Sequence[str]) -> dict[str, Any]:
    ports = {name: fixture.listeners.get(name) for name in ("tcp", "udp", "other")}
    return {
        **PROBE_DEMANDS,
        **{name: listener.getsockname()[1] if listener else 9 for name, listener in ports.items()},
        "checkout": str(checkout),
        "tries": list(tries),
        "mark": fixture.mark,
        "outside": str(fixture.outside),
        "unix": str(fixture.outside / "socket"),
        "git": str(fixture.git),
        "home": [str(path) for path in fixture.list_credentials()],
        "folders": list(SYSTEM_FOLDERS),
        "victim": fixture.victim.pid if fixture.victim is not None else 0,
        "hook": str(find_hook()),
        "records": [str(fixture.audit), str(folder / "policy.json"), str(folder / "launch.json"), str(folder / "lock")],
    }


def _build_launch(
    fixture: ProbeFixture, checkout: Path, folder: Path, *, watched: bool, limits: Mapping[str, int]
) -> tuple[SandboxSpec, dict[str, Any]]:
    machine, hook = fixture.machine, find_hook()
    level = machine.sandbox.level if machine.is_sandboxed else SandboxLevel.OFF.value
    changed = {**TINY_LIMITS, **limits, "level": level}
    site = SandboxContext(
        settings=machine.sandbox.model_copy(update=changed),
        environ=fixture.build_environment(),
        tools=machine.tools,
        home=machine.home,
        repo_root=machine.repo_root,
        objects=fixture.git / "objects",
        common=fixture.root / "common",
    )
    wanted = SandboxRequest(
        worktree=checkout, folder=folder, variables={HOOK_VARIABLE: str(hook)}, shown=(hook,), watched=watched,
        hosts=("listed.invalid",) if watched else (),
    )  # fmt: skip
    box = machine.build(site, wanted)
    prepared = prepare_sandbox(box, folder)
    keys = prepared.build_launch_keys()
    if watched:
        keys |= _build_watch(fixture, checkout, folder, box, prepared.mounts)
    if watched and box.network is Network.DOORS:
        keys["gateway"] = {"port": LOOPBACK_PORTS[0], "hosts": list(box.hosts)}
    common = {"cwd": str(checkout), "timeout": PROBE_TIMEOUT, "grace": 0.5, "limits": dict(prepared.limits)}
    return box, {**common, "env": dict(prepared.env), **keys}


def _build_watch(
    fixture: ProbeFixture, checkout: Path, folder: Path, box: SandboxSpec, mounts: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    policy = compile_policy(
        permissions=PermissionSettings(),
        validation=ValidationSettings(),
        role="worker",
        role_settings=None,
        worktree=str(checkout),
        scope=("src/",),
        readable=tuple(mount.target for mount in box.mounts if mount.kind is MountKind.RO and mount.target != box.cwd),
        sandboxed=box.level is not SandboxLevel.OFF,
    )
    save_policy(policy, folder / "policy.json")
    watch = {
        "port": LOOPBACK_PORTS[1],
        "policy": str(folder / "policy.json"),
        "audit": str(fixture.audit),
        "agent": "doctor",
        "hook": str(find_hook()),
        "shfmt": _find_shfmt_path(),
        "mounts": dict(mounts),
    }
    return {"watch": watch}


def read_kernel_views(probe_run: ProbeRun) -> Mapping[str, KernelView]:
    """Read what the kernel says about the waiting processes, by role, and let them continue."""
    _wait_until(lambda: (probe_run.checkout / "waiting").exists() or not probe_run.warden.is_running)
    pids = {role: probe_run.find_processes(role)[:1] for role in ("everything", "nested")}
    views = {role: read_kernel_view(found[0]) for role, found in pids.items() if found}
    with suppress(OSError):
        (probe_run.checkout / "seen").touch()
    return {role: view for role, view in views.items() if view is not None}


def kill_warden(probe_run: ProbeRun) -> bool:
    """Kill the warden once the daemon runs; true when everything ended with it."""
    _wait_until(lambda: "daemon" in probe_run.list_marks("tried") or not probe_run.warden.is_running)
    was_there = bool(probe_run.find_processes())
    probe_run.warden.kill()
    return was_there and _wait_until(lambda: not probe_run.find_processes(), seconds=5.0)


def _wait_until(is_done: Callable[[], bool], seconds: float = PROBE_TIMEOUT) -> bool:
    end = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def run_hook_without_watcher() -> int:
    """The hook's exit code when nothing listens on its port; -1 when it cannot be run."""
    call = {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}, "cwd": "/"}
    with suppress(OSError, ProcessFailed), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as silent:
        silent.bind(("127.0.0.1", 0))
        env = {PORT_VARIABLE: str(silent.getsockname()[1]), "PATH": os.defpath}
        return run(str(find_hook()), cwd=Path("/"), env=env, stdin=json.dumps(call), timeout=PROBE_TIMEOUT).code
    return -1


def build_disk_limit(fixture: ProbeFixture) -> Mapping[str, int]:
    """Build a limit that this disk cannot satisfy."""
    return {"min_free_disk_mb": (read_free_mb(str(fixture.root)) or 0) + 1024}


def _find_shfmt_path() -> str:
    """Without shfmt only shell commands cannot be judged, and that is a separate guard."""
    try:
        return find_shfmt()
    except Refused:
        return "/nonexistent/shfmt"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """What the kernel says about a process in a sandbox, read from outside."""

    capabilities: int  # of all kinds together
    is_filtered: bool  # by seccomp
    no_new_privileges: bool
    user_namespace: str  # "" when it cannot be read
    is_proc_read_only: bool
    cpu_seconds: str  # the limit: a number, or unlimited


def read_kernel_view(pid: int) -> KernelView | None:
    """None when the process has ended, or this is not Linux."""
    try:
        status = dict(_parse_status(Path(f"/proc/{pid}/status").read_text("utf-8", "replace")))
        mounts = Path(f"/proc/{pid}/mountinfo").read_text("utf-8", "replace")
        return KernelView(
            capabilities=sum(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")),
            is_filtered=status.get("Seccomp") == "2",
            no_new_privileges=status.get("NoNewPrivs") == "1",
            user_namespace=_read_user_namespace(pid),
            is_proc_read_only=_is_read_only(mounts, "/proc"),
            cpu_seconds=_parse_limit(Path(f"/proc/{pid}/limits").read_text("utf-8", "replace"), "Max cpu time"),
        )
    except (OSError, KeyError, ValueError):
        return None


def _parse_status(text: str) -> list[tuple[str, str]]:
    return [(name, value.strip()) for name, _, value in (line.partition(":") for line in text.splitlines())]


def _read_user_namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/user").readlink())
    except OSError:
        return ""


def _is_read_only(mounts: str, place: str) -> bool:
    """The last mount on a path is the one that counts."""
    options = [words[5] for line in mounts.splitlines() if len(words := line.split()) > 5 and words[4] == place]
    return bool(options) and "ro" in options[-1].split(",")


def _parse_limit(limits: str, name: str) -> str:
    """The hard limit: the soft one can be raised up to it."""
    words = next((line.removeprefix(name).split() for line in limits.splitlines() if line.startswith(name)), [])
    return words[1] if len(words) > 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardEvidence:
    """What is seen outside after all runs have ended, and what can be concluded from it."""

    fixture: ProbeFixture
    main: ProbeRun
    outcome: ProcessOutcome | None
    kernel_views: Mapping[str, KernelView]
    gone_at_end: bool
    gone_with_warden: bool | None
    memory: tuple[ProbeRun, ProcessOutcome | None]
    many: tuple[ProbeRun, ProcessOutcome | None]
    disk: ProcessOutcome | None
    audit: Audit
    dead_watcher: int  # exit code of a hook without a watcher
    validation: ValidationSettings

    @property
    def watch(self) -> Mapping[str, Any]:
        return self.outcome.watch if self.outcome is not None else {}

    @property
    def has_open_network(self) -> bool:
        return self.main.box.network is Network.HOST and self.fixture.machine.sandbox.allow_network

    def has_tried(self, probe: str) -> bool:
        return probe in self.main.list_marks("tried")

    def explain_untried(self) -> str:
        if self.outcome is None:
            return "its warden recorded nothing"
        ended = f"the probe ended before it ({self.outcome.reason}, exit code {self.outcome.exit_code})"
        return self.outcome.detail or ended

    def find_stolen(self, name: str, what: str) -> list[str]:
        return [f"{what} was read"] if self.fixture.secret_word in self.main.read_captured(name) else []

    def find_escaped(self, *names: str) -> list[str]:
        return [f"{name} went through" for name in names if name in self.main.list_marks("escaped")]

    def find_changed(self, name: str) -> list[str]:
        with suppress(OSError):
            if (self.fixture.outside / name).read_text() == self.fixture.build_secret(name):
                return []
        return [f"{name} was changed"]


def gather_evidence(fixture: ProbeFixture, validation: ValidationSettings, probes: Sequence[str]) -> GuardEvidence:
    """All runs at the same time, each in its own sandbox."""
    inherited = os.open(fixture.outside / "inherited.txt", os.O_RDWR)
    try:
        main = start_probe_run(fixture, "main", "everything", tries=probes, watched=True, handles=(inherited,))
    finally:
        os.close(inherited)
    stay = start_probe_run(fixture, "stay", "stay") if fixture.machine.is_sandboxed else None
    memory, many = start_probe_run(fixture, "memory", "memory"), start_probe_run(fixture, "many", "many")
    disk = start_probe_run(fixture, "disk", "wait", limits=build_disk_limit(fixture))
    kernel_views = read_kernel_views(main)
    gone_with_warden = kill_warden(stay) if stay is not None else None
    outcome = main.wait_for_outcome()
    return GuardEvidence(
        fixture=fixture,
        main=main,
        outcome=outcome,
        kernel_views=kernel_views,
        gone_at_end=not main.find_processes(),
        gone_with_warden=gone_with_warden,
        memory=(memory, memory.wait_for_outcome()),
        many=(many, many.wait_for_outcome()),
        disk=disk.wait_for_outcome(),
        audit=read_audit(fixture.audit),
        dead_watcher=run_hook_without_watcher(),
        validation=validation,
    )
