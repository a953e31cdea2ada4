"""Where the doctor tries the guards: things to lose in a folder of its own, and boxes in which probes are let loose.

The boxes are an agent's, made the same way and started by the same warden; only their limits are tiny. What became of
everything is looked at from outside: a probe's own word counts only when it is that it got through.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psutil

import blueflame
from blueflame.engine.guard_sights import Sight, sight_of
from blueflame.engine.local import ENTRY, KEPT, read_outcome
from blueflame.engine.verbs import Outcome
from blueflame.model.box import Box, Kind, Level, Network
from blueflame.model.errors import WorldError
from blueflame.model.settings_walls import Permissions, SandboxSettings, Validation
from blueflame.rules.policy_compiling import compile_policy
from blueflame.rules.sandbox import DOOR_PORTS
from blueflame.tools.agents.hooking import HOOK, PORT, hook_path
from blueflame.tools.files import trouble
from blueflame.tools.policies import save_policy, shfmt_path
from blueflame.tools.sandbox import Site, Toolchains, Wanted, make_box, prepare
from blueflame.tools.sandbox.clearing import passing_folder
from blueflame.warden.pressure import free_mb

MakeBox: TypeAlias = Callable[[Site, Wanted], Box]
PROBES = Path(__file__).with_name("guard_probes.py")
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
SYSTEM_FOLDERS = ("/", "/usr", "/usr/bin", "/etc", "/var", "/home", "/root", "/opt", "/run", "/tmp", "/dev/shm")  # noqa: S108
CREDENTIALS = (
    *("", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".config"),
    *(".docker/config.json", ".cargo/credentials.toml", ".m2/settings.xml", ".gem/credentials", ".vault-token"),
    *(".bash_history", ".zsh_history", ".claude", ".claude.json", ".codex", ".gemini", ".mozilla", ".local/share"),
)
PLANTED = ("MY_API_KEY", "DB_PASSWORD", "SSH_AUTH_SOCK", "AWS_SESSION_TOKEN")
PATIENCE = 30.0
LOOK = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the person has: their settings, tools and home. `boxed` says whether a box is to be built."""

    sandbox: SandboxSettings
    tools: Toolchains
    home: Path
    repo_root: Path | None
    boxed: bool
    make: MakeBox = make_box


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt under a warden of its own."""

    checkout: Path
    folder: Path
    box: Box
    warden: subprocess.Popen[bytes]

    def ended(self) -> Outcome | None:
        with suppress(subprocess.TimeoutExpired):
            self.warden.wait(PATIENCE)
        try:
            return read_outcome(self.folder)
        except WorldError:
            return None

    def found(self, folder: str) -> frozenset[str]:
        with suppress(OSError):
            return frozenset(each.name for each in (self.checkout / folder).iterdir())
        return frozenset()

    def loot(self, name: str) -> str:
        with suppress(OSError):
            return (self.checkout / "loot" / name).read_text("utf-8", "surrogateescape")
        return ""

    def running(self, role: str = "") -> list[int]:
        """Of what was let loose, the box around it included; of one role when named."""
        script = str(self.checkout / PROBES.name)
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if (words[4:5] == [script] and words[-1] == role) if role else script in words:
                found.append(process.pid)
        return sorted(found)


@dataclass(slots=True, kw_only=True)
class Ground:
    """A folder with things to lose. `word` is in every secret that was planted, and nobody inside is told it."""

    root: Path
    machine: Machine
    mark: str = field(default_factory=lambda: f"blueflame-{secrets.token_hex(6)}")
    word: str = field(default_factory=lambda: secrets.token_hex(12))
    doors: dict[str, socket.socket] = field(default_factory=dict)
    victim: subprocess.Popen[bytes] | None = None
    trials: list[Trial] = field(default_factory=list)

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def git(self) -> Path:
        return self.root / "main" / ".git"

    @property
    def audit(self) -> Path:
        return self.root / "logs" / "doctor.audit.jsonl"

    def credentials(self) -> list[Path]:
        there = [self.machine.home / name for name in CREDENTIALS]
        return [path for path in there if os.access(path, os.R_OK)]

    def knocked(self, *names: str) -> list[str]:
        """At which of our doors somebody was."""
        return [name for name in names if name in self.doors and _was_there(self.doors[name])]

    def environ(self) -> dict[str, str]:
        return {**os.environ, **{name: self.secret(name) for name in PLANTED}}

    def secret(self, name: str) -> str:
        return f"{self.word}-{name}"


def _was_there(door: socket.socket) -> bool:
    try:
        if door.type == socket.SOCK_DGRAM:
            return bool(door.recv(100))
        door.accept()[0].close()
    except OSError:
        return False
    return True


@contextmanager
def laid_out(machine: Machine) -> Iterator[Ground]:
    """Gone at the end with everything that was started."""
    with ExitStack() as stack:
        root = Path(os.path.realpath(stack.enter_context(passing_folder())))
        ground = Ground(root=root, machine=machine)
        try:
            _lay_out(ground, stack)
        except OSError as e:
            raise trouble("prepare what the doctor tries in", root, e) from e
        stack.callback(_end_all, ground)
        yield ground


def _lay_out(ground: Ground, stack: ExitStack) -> None:
    for name in ("secret.txt", "written.txt", "victim.txt", "inherited.txt"):
        _put(ground.outside / name, ground.secret(name))
    for name, text in {
        "config": ground.secret("git"),
        "objects/shown": "shown",
        "HEAD": "ref: refs/heads/main",
    }.items():
        _put(ground.git / name, text)
    for name in ("objects/pack", "refs/heads", "hooks"):
        (ground.git / name).mkdir(parents=True, exist_ok=True)
    _open_doors(ground, stack)
    ground.victim = subprocess.Popen(
        ["/bin/sh", "-c", f"while :; do sleep 60; done; : {ground.secret('victim')}"],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    stack.callback(_end, ground.victim)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _open_doors(ground: Ground, stack: ExitStack) -> None:
    """A name in the file system may be too long for a socket; one without a file never is."""
    wanted: list[tuple[str, int, int, Any]] = [
        ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("other", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(ground.outside / "door")),
    ]
    if sys.platform == "linux":
        wanted.append(("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{ground.mark}"))
    for name, family, kind, address in wanted:
        door = stack.enter_context(socket.socket(family, kind))
        with suppress(OSError):
            door.bind(address)
            door.setblocking(False)
            if kind == socket.SOCK_STREAM:
                door.listen()
            ground.doors[name] = door


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_all(ground: Ground) -> None:
    """Wardens end when asked, and their boxes with them; whatever is left of a hole in a wall is ended here."""
    for trial in ground.trials:
        if trial.warden.poll() is None:
            trial.warden.terminate()
    for trial in ground.trials:
        with suppress(subprocess.TimeoutExpired):
            trial.warden.wait(PATIENCE)
        _end(trial.warden)
        for pid in trial.running():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    for folder in SYSTEM_FOLDERS:
        with suppress(OSError):
            Path(folder, ground.mark).unlink()


def let_loose(
    ground: Ground, name: str, role: str, *, tries: Sequence[str] = (), watched: bool = False,
    limits: Mapping[str, int] | None = None, handles: Sequence[int] = (),
) -> Trial:  # fmt: skip
    checkout, folder = ground.root / "main" / ".trees" / name, ground.root / "attempts" / name
    for place in (checkout, folder):
        place.mkdir(parents=True)
    _put(checkout / "README.md", "# sample\n")
    shutil.copyfile(PROBES, checkout / PROBES.name)
    box, launch = _launch(ground, checkout, folder, watched=watched, limits=limits or {})
    _put(checkout / "orders.json", json.dumps(_orders(ground, checkout, folder, tries)))
    argv = [sys.executable, "-I", "-S", "-E", str(checkout / PROBES.name), str(checkout / "orders.json"), role]
    _put(folder / "launch.json", json.dumps({**launch, "attempt": f"doctor-{name}", "argv": argv}))
    trial = Trial(checkout=checkout, folder=folder, box=box, warden=_start_warden(ground, folder, handles))
    ground.trials.append(trial)
    return trial


def _start_warden(ground: Ground, folder: Path, handles: Sequence[int]) -> subprocess.Popen[bytes]:
    """As engine/local does it, but with files that somebody forgot to close, and secrets in its environment."""
    root = Path(blueflame.__file__).parents[1]
    argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", ENTRY, str(root), str(folder)]
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= {name: ground.secret(name) for name in PLANTED}
    with (folder / "warden.log").open("ab") as log:
        return subprocess.Popen(
            argv, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, pass_fds=handles,
        )  # fmt: skip


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
        "hook": str(hook_path()),
        "records": [str(ground.audit), str(folder / "policy.json"), str(folder / "launch.json"), str(folder / "lock")],
    }


def _launch(
    ground: Ground, checkout: Path, folder: Path, *, watched: bool, limits: Mapping[str, int]
) -> tuple[Box, dict[str, Any]]:
    machine, hook = ground.machine, hook_path()
    changed = {**TINY, **limits, "level": machine.sandbox.level if machine.boxed else Level.OFF.value}
    site = Site(
        settings=machine.sandbox.model_copy(update=changed),
        environ=ground.environ(),
        tools=machine.tools,
        home=machine.home,
        repo_root=machine.repo_root,
        objects=ground.git / "objects",
        common=ground.root / "common",
    )
    wanted = Wanted(
        worktree=checkout, folder=folder, variables={HOOK: str(hook)}, shown=(hook,), watched=watched,
        hosts=("listed.invalid",) if watched else (),
    )  # fmt: skip
    box = machine.make(site, wanted)
    prepared = prepare(box, folder)
    keys = prepared.launch()
    if watched:
        keys |= _watch(ground, checkout, folder, box, prepared.mounts)
    if watched and box.network is Network.DOORS:
        keys["gateway"] = {"port": DOOR_PORTS[0], "hosts": list(box.hosts)}
    common = {"cwd": str(checkout), "timeout": PATIENCE, "grace": 0.5, "limits": dict(prepared.limits)}
    return box, {**common, "env": dict(prepared.env), **keys}


def _watch(
    ground: Ground, checkout: Path, folder: Path, box: Box, mounts: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    policy = compile_policy(
        permissions=Permissions(),
        validation=Validation(),
        role="worker",
        role_settings=None,
        worktree=str(checkout),
        scope=("src/",),
        readable=tuple(mount.target for mount in box.mounts if mount.kind is Kind.RO and mount.target != box.cwd),
    )
    save_policy(policy, folder / "policy.json")
    watch = {
        "port": DOOR_PORTS[1],
        "policy": str(folder / "policy.json"),
        "audit": str(ground.audit),
        "agent": "doctor",
        "hook": str(hook_path()),
        "shfmt": shfmt_path(),
        "mounts": dict(mounts),
    }
    return {"watch": watch}


def look_at(trial: Trial) -> Mapping[str, Sight]:
    """What the kernel says of them while they live, by role; then they may go on."""
    _until(lambda: (trial.checkout / "waiting").exists() or trial.warden.poll() is not None)
    pids = {role: trial.running(role)[:1] for role in ("everything", "nested")}
    sights = {role: sight_of(found[0]) for role, found in pids.items() if found}
    with suppress(OSError):
        (trial.checkout / "seen").touch()
    return {role: sight for role, sight in sights.items() if sight is not None}


def kill_warden(trial: Trial) -> bool:
    """Once its daemon lives. Tells whether all of it has gone with the warden."""
    _until(lambda: "daemon" in trial.found("tried") or trial.warden.poll() is not None)
    was_there = bool(trial.running())
    trial.warden.kill()
    trial.warden.wait()
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
        done = subprocess.run(
            [str(hook_path())], input=json.dumps(call).encode(), capture_output=True, timeout=PATIENCE, check=False,
            env={PORT: str(port), "PATH": os.defpath},
        )  # fmt: skip
    return done.returncode


def too_much_disk(ground: Ground) -> Mapping[str, int]:
    """A limit that this disk cannot keep."""
    return {"min_free_disk_mb": (free_mb(str(ground.root)) or 0) + 1024}
