"""The boxes in which the doctor lets its probes loose.

They are an agent's, made the same way and started by the same warden; only their limits are tiny. What became of
everything is looked at from outside: a probe's own word counts only when it is that it got through.
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

import blueflame
from blueflame.agents.hook import HOOK_VARIABLE, PORT_VARIABLE, find_hook
from blueflame.doctor.fixtures import PATIENCE, PLANTED, PROBES, SYSTEM_FOLDERS, Ground, Trial, put
from blueflame.doctor.kernel_view import Sight, sight_of
from blueflame.model.errors import Refused
from blueflame.model.sandbox import MountKind, Network, SandboxLevel, SandboxSpec
from blueflame.model.settings.permissions import PermissionSettings, ValidationSettings
from blueflame.orchestrator.engine.local import WARDEN_CODE, WARDEN_ENVIRONMENT
from blueflame.policy.compile import compile_policy
from blueflame.sandbox import SandboxContext, SandboxRequest, prepare_sandbox
from blueflame.sandbox.bwrap import LOOPBACK_PORTS
from blueflame.system.background_process import BackgroundProcess, start_background
from blueflame.system.process import run
from blueflame.warden.resource_limits import read_free_mb
from blueflame.watcher.policy_file import find_shfmt, save_policy

TINY: Mapping[str, int] = {
    "max_cpu_seconds": 1,
    "max_memory_mb": 64,
    "max_file_size_mb": 1,
    "max_open_files": 64,
    "max_processes": 24,
    "min_free_disk_mb": 0,
}
ASKS = {"memory_mb": 160, "children": 64, "files": 128, "cpu": 2.0}
"""What the probes go for: more than is allowed, and less than any machine would mind."""
WALLED = (
    *("read_outside", "write_outside", "write_system", "history", "home", "environment", "inherited", "processes"),
    *("network", "sockets", "capabilities", "system_calls", "kernel", "gateway", "nested", "daemon"),
)
"""Tried only in a box: without one they would go through."""
ALWAYS = ("watcher", "file_size", "open_files", "cpu")
LAST = ("audit",)
LOOK = 0.02


def let_loose(
    ground: Ground, name: str, role: str, *, tries: Sequence[str] = (), watched: bool = False,
    limits: Mapping[str, int] | None = None, handles: Sequence[int] = (),
) -> Trial:  # fmt: skip
    checkout, folder = ground.root / "main" / ".trees" / name, ground.root / "attempts" / name
    for place in (checkout, folder):
        place.mkdir(parents=True)
    put(checkout / "README.md", "# sample\n")
    shutil.copyfile(PROBES, checkout / PROBES.name)
    box, launch = _launch(ground, checkout, folder, watched=watched, limits=limits or {})
    put(checkout / "orders.json", json.dumps(_orders(ground, checkout, folder, tries)))
    argv = [sys.executable, "-I", "-S", "-E", str(checkout / PROBES.name), str(checkout / "orders.json"), role]
    put(folder / "launch.json", json.dumps({**launch, "attempt": f"doctor-{name}", "argv": argv}))
    trial = Trial(checkout=checkout, folder=folder, box=box, warden=_start_warden(ground, folder, handles))
    ground.trials.append(trial)
    return trial


def _start_warden(ground: Ground, folder: Path, handles: Sequence[int]) -> BackgroundProcess:
    """As orchestrator/engine/local does it, but with files left open, and secrets in its environment."""
    root = Path(blueflame.__file__).parents[1]
    argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", WARDEN_CODE, str(root), str(folder)]
    env = {name: os.environ[name] for name in WARDEN_ENVIRONMENT if name in os.environ}
    env |= {name: ground.secret(name) for name in PLANTED}
    return start_background(argv, env=env, log=folder / "warden.log", handles=handles)


def _orders(ground: Ground, checkout: Path, folder: Path, tries: Sequence[str]) -> dict[str, Any]:
    ports = {name: ground.doors[name].getsockname()[1] for name in ("tcp", "udp", "other") if name in ground.doors}
    return {
        **ASKS,
        **{name: ports.get(name, 9) for name in ("tcp", "udp", "other")},
        "checkout": str(checkout),
        "tries": list(tries),
        "mark": ground.mark,
        "outside": str(ground.outside),
        "unix": str(ground.outside / "door"),
        "git": str(ground.git),
        "home": [str(path) for path in ground.credentials()],
        "folders": list(SYSTEM_FOLDERS),
        "victim": ground.victim.pid if ground.victim is not None else 0,
        "hook": str(find_hook()),
        "records": [str(ground.audit), str(folder / "policy.json"), str(folder / "launch.json"), str(folder / "lock")],
    }


def _launch(
    ground: Ground, checkout: Path, folder: Path, *, watched: bool, limits: Mapping[str, int]
) -> tuple[SandboxSpec, dict[str, Any]]:
    machine, hook = ground.machine, find_hook()
    changed = {**TINY, **limits, "level": machine.sandbox.level if machine.boxed else SandboxLevel.OFF.value}
    site = SandboxContext(
        settings=machine.sandbox.model_copy(update=changed),
        environ=ground.environ(),
        tools=machine.tools,
        home=machine.home,
        repo_root=machine.repo_root,
        objects=ground.git / "objects",
        common=ground.root / "common",
    )
    wanted = SandboxRequest(
        worktree=checkout, folder=folder, variables={HOOK_VARIABLE: str(hook)}, shown=(hook,), watched=watched,
        hosts=("listed.invalid",) if watched else (),
    )  # fmt: skip
    box = machine.make(site, wanted)
    prepared = prepare_sandbox(box, folder)
    keys = prepared.launch()
    if watched:
        keys |= _watch(ground, checkout, folder, box, prepared.mounts)
    if watched and box.network is Network.DOORS:
        keys["gateway"] = {"port": LOOPBACK_PORTS[0], "hosts": list(box.hosts)}
    common = {"cwd": str(checkout), "timeout": PATIENCE, "grace": 0.5, "limits": dict(prepared.limits)}
    return box, {**common, "env": dict(prepared.env), **keys}


def _watch(
    ground: Ground, checkout: Path, folder: Path, box: SandboxSpec, mounts: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    policy = compile_policy(
        permissions=PermissionSettings(),
        validation=ValidationSettings(),
        role="worker",
        role_settings=None,
        worktree=str(checkout),
        scope=("src/",),
        readable=tuple(mount.target for mount in box.mounts if mount.kind is MountKind.RO and mount.target != box.cwd),
    )
    save_policy(policy, folder / "policy.json")
    watch = {
        "port": LOOPBACK_PORTS[1],
        "policy": str(folder / "policy.json"),
        "audit": str(ground.audit),
        "agent": "doctor",
        "hook": str(find_hook()),
        "shfmt": _shell_reader(),
        "mounts": dict(mounts),
    }
    return {"watch": watch}


def look_at(trial: Trial) -> Mapping[str, Sight]:
    """What the kernel says of them while they live, by role; then they may go on."""
    _until(lambda: (trial.checkout / "waiting").exists() or not trial.warden.is_running)
    pids = {role: trial.running(role)[:1] for role in ("everything", "nested")}
    sights = {role: sight_of(found[0]) for role, found in pids.items() if found}
    with suppress(OSError):
        (trial.checkout / "seen").touch()
    return {role: sight for role, sight in sights.items() if sight is not None}


def kill_warden(trial: Trial) -> bool:
    """Once its daemon lives. Tells whether all of it has gone with the warden."""
    _until(lambda: "daemon" in trial.found("tried") or not trial.warden.is_running)
    was_there = bool(trial.running())
    trial.warden.kill()
    return was_there and _until(lambda: not trial.running(), seconds=5.0)


def _until(true: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK)
    return True


def dead_watcher() -> int:
    """What the hook says when nobody listens: its exit code."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        call = {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}, "cwd": "/"}
        env = {PORT_VARIABLE: str(port), "PATH": os.defpath}
        return run(str(find_hook()), cwd=Path("/"), env=env, stdin=json.dumps(call), timeout=PATIENCE).code


def too_much_disk(ground: Ground) -> Mapping[str, int]:
    """A limit that this disk cannot keep."""
    return {"min_free_disk_mb": (read_free_mb(str(ground.root)) or 0) + 1024}


def _shell_reader() -> str:
    """Without one nothing but shell commands cannot be judged, and that is a guard of its own."""
    try:
        return find_shfmt()
    except Refused:
        return "/nonexistent/shfmt"
