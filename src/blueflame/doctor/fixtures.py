"""What there is to lose while the doctor tries the guards: a folder, doors to knock at, a process to kill."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from blueflame.model.errors import WorldError
from blueflame.model.sandbox import SandboxSpec
from blueflame.model.settings.permissions import SandboxSettings
from blueflame.orchestrator.engine.interface import ProcessOutcome
from blueflame.orchestrator.engine.local import read_outcome
from blueflame.sandbox import SandboxContext, SandboxRequest, Toolchains, build_sandbox
from blueflame.sandbox.cleanup import make_temporary_folder
from blueflame.system.background_process import BackgroundProcess, start_background
from blueflame.system.files import build_file_error

MakeBox: TypeAlias = Callable[[SandboxContext, SandboxRequest], SandboxSpec]
PROBES = Path(__file__).with_name("probes.py")
SYSTEM_FOLDERS = ("/", "/usr", "/usr/bin", "/etc", "/var", "/home", "/root", "/opt", "/run", "/tmp", "/dev/shm")  # noqa: S108
CREDENTIALS = (
    *("", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".config"),
    *(".docker/config.json", ".cargo/credentials.toml", ".m2/settings.xml", ".gem/credentials", ".vault-token"),
    *(".bash_history", ".zsh_history", ".claude", ".claude.json", ".codex", ".gemini", ".mozilla", ".local/share"),
)
PLANTED = ("MY_API_KEY", "DB_PASSWORD", "SSH_AUTH_SOCK", "AWS_SESSION_TOKEN")
PATIENCE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the person has: their settings, tools and home. `boxed` says whether a box is to be built."""

    sandbox: SandboxSettings
    tools: Toolchains
    home: Path
    repo_root: Path | None
    boxed: bool
    make: MakeBox = build_sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt under a warden of its own."""

    checkout: Path
    folder: Path
    box: SandboxSpec
    warden: BackgroundProcess

    def ended(self) -> ProcessOutcome | None:
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
    victim: BackgroundProcess | None = None
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
        root = Path(os.path.realpath(stack.enter_context(make_temporary_folder())))
        ground = Ground(root=root, machine=machine)
        try:
            _lay_out(ground, stack)
        except OSError as e:
            raise build_file_error("prepare what the doctor tries in", root, e) from e
        stack.callback(_end_all, ground)
        yield ground


def _lay_out(ground: Ground, stack: ExitStack) -> None:
    for name in ("secret.txt", "written.txt", "victim.txt", "inherited.txt"):
        put(ground.outside / name, ground.secret(name))
    for name, text in {
        "config": ground.secret("git"),
        "objects/shown": "shown",
        "HEAD": "ref: refs/heads/main",
    }.items():
        put(ground.git / name, text)
    for name in ("objects/pack", "refs/heads", "hooks"):
        (ground.git / name).mkdir(parents=True, exist_ok=True)
    _open_doors(ground, stack)
    waits = f"import time; time.sleep({2 * PATIENCE})"
    ground.victim = start_background([sys.executable, "-I", "-S", "-c", waits, ground.secret("victim")])
    stack.callback(ground.victim.end)


def put(path: Path, text: str) -> None:
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


def _end_all(ground: Ground) -> None:
    """Wardens end when asked, and their boxes with them; whatever is left of a hole in a wall is ended here."""
    for trial in ground.trials:
        if trial.warden.is_running:
            trial.warden.ask_to_end()
    for trial in ground.trials:
        trial.warden.wait(PATIENCE)
        trial.warden.end()
        for pid in trial.running():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    for folder in SYSTEM_FOLDERS:
        with suppress(OSError):
            Path(folder, ground.mark).unlink()
