"""What the doctor's probes attack: a folder with planted secrets, listening sockets, a process to kill."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.model.sandbox import SandboxSpec
from blueflame.model.settings.permissions import SandboxSettings
from blueflame.orchestrator.engine.attempt_status import read_outcome
from blueflame.orchestrator.engine.interface import ProcessOutcome
from blueflame.sandbox.build import SandboxContext, SandboxRequest, build_sandbox
from blueflame.sandbox.prepare import make_temporary_folder
from blueflame.sandbox.toolchains import Toolchains
from blueflame.system.files import explain_file_errors
from blueflame.system.process import BackgroundProcess, start_background

BuildSandbox: TypeAlias = Callable[[SandboxContext, SandboxRequest], SandboxSpec]
PROBES_FILE = Path(__file__).with_name("probes.py")
SYSTEM_FOLDERS = ("/", "/usr", "/usr/bin", "/etc", "/var", "/home", "/root", "/opt", "/run", "/tmp", "/dev/shm")  # noqa: S108
CREDENTIALS = (
    *("", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".config"),
    *(".docker/config.json", ".cargo/credentials.toml", ".m2/settings.xml", ".gem/credentials", ".vault-token"),
    *(".bash_history", ".zsh_history", ".claude", ".claude.json", ".codex", ".gemini", ".mozilla", ".local/share"),
)
PLANTED_VARIABLES = ("MY_API_KEY", "DB_PASSWORD", "SSH_AUTH_SOCK", "AWS_SESSION_TOKEN")
PROBE_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The person's settings, tools and home. `is_sandboxed` says whether a sandbox is built."""

    sandbox: SandboxSettings
    tools: Toolchains
    home: Path
    repo_root: Path | None
    is_sandboxed: bool
    build: BuildSandbox = build_sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRun:
    """One run of the probes under its own warden."""

    checkout: Path
    folder: Path
    box: SandboxSpec
    warden: BackgroundProcess

    def wait_for_outcome(self) -> ProcessOutcome | None:
        self.warden.wait(PROBE_TIMEOUT)
        try:
            return read_outcome(self.folder)
        except WorldError:
            return None

    def list_marks(self, folder: str) -> frozenset[str]:
        with suppress(OSError):
            return frozenset(each.name for each in (self.checkout / folder).iterdir())
        return frozenset()

    def read_captured(self, name: str) -> str:
        with suppress(OSError):
            return (self.checkout / "captured" / name).read_text("utf-8", "surrogateescape")
        return ""

    def find_processes(self, role: str = "") -> list[int]:
        """Processes of this run, the sandbox around it included; only those of `role` when given."""
        script = str(self.checkout / PROBES_FILE.name)
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if (words[4:5] == [script] and words[-1] == role) if role else script in words:
                found.append(process.pid)
        return sorted(found)


@dataclass(slots=True, kw_only=True)
class ProbeFixture:
    """The attacked folder. `secret_word` is in every planted secret and is not given to the probes."""

    root: Path
    machine: Machine
    mark: str = field(default_factory=lambda: f"blueflame-{secrets.token_hex(6)}")
    secret_word: str = field(default_factory=lambda: secrets.token_hex(12))
    listeners: dict[str, socket.socket] = field(default_factory=dict)
    victim: BackgroundProcess | None = None
    runs: list[ProbeRun] = field(default_factory=list)

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def git(self) -> Path:
        return self.root / "main" / ".git"

    @property
    def audit(self) -> Path:
        return self.root / "logs" / "doctor.audit.jsonl"

    def list_credentials(self) -> list[Path]:
        there = [self.machine.home / name for name in CREDENTIALS]
        return [path for path in there if os.access(path, os.R_OK)]

    def find_reached(self, *names: str) -> list[str]:
        """Which of our listeners were connected to."""
        return [name for name in names if name in self.listeners and _was_reached(self.listeners[name])]

    def build_environment(self) -> dict[str, str]:
        return {**os.environ, **{name: self.build_secret(name) for name in PLANTED_VARIABLES}}

    def build_secret(self, name: str) -> str:
        return f"{self.secret_word}-{name}"


def _was_reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(100))
        listener.accept()[0].close()
    except OSError:
        return False
    return True


@contextmanager
def open_fixture(machine: Machine) -> Iterator[ProbeFixture]:
    """Set up the attacked folder; at the end it is removed and every started process is ended."""
    with ExitStack() as stack:
        root = Path(os.path.realpath(stack.enter_context(make_temporary_folder())))
        fixture = ProbeFixture(root=root, machine=machine)
        with explain_file_errors("prepare the folder for the guard trials", root):
            _create_fixture(fixture, stack)
        stack.callback(_end_everything, fixture)
        yield fixture


def _create_fixture(fixture: ProbeFixture, stack: ExitStack) -> None:
    for name in ("secret.txt", "written.txt", "victim.txt", "inherited.txt"):
        write_file(fixture.outside / name, fixture.build_secret(name))
    for name, text in {
        "config": fixture.build_secret("git"),
        "objects/shown": "shown",
        "HEAD": "ref: refs/heads/main",
    }.items():
        write_file(fixture.git / name, text)
    for name in ("objects/pack", "refs/heads", "hooks"):
        (fixture.git / name).mkdir(parents=True, exist_ok=True)
    _open_listeners(fixture, stack)
    waits = f"import time; time.sleep({2 * PROBE_TIMEOUT})"
    fixture.victim = start_background([sys.executable, "-I", "-S", "-c", waits, fixture.build_secret("victim")])
    stack.callback(fixture.victim.kill_group)


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _open_listeners(fixture: ProbeFixture, stack: ExitStack) -> None:
    """A socket path may be too long; an abstract name never is."""
    wanted: list[tuple[str, int, int, Any]] = [
        ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("other", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(fixture.outside / "socket")),
    ]
    if sys.platform == "linux":
        wanted.append(("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{fixture.mark}"))
    for name, family, kind, address in wanted:
        listener = stack.enter_context(socket.socket(family, kind))
        with suppress(OSError):
            listener.bind(address)
            listener.setblocking(False)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            fixture.listeners[name] = listener


def _end_everything(fixture: ProbeFixture) -> None:
    """Wardens end when asked, and their sandboxes with them; what escaped through a hole is killed here."""
    for probe_run in fixture.runs:
        if probe_run.warden.is_running:
            probe_run.warden.terminate()
    for probe_run in fixture.runs:
        probe_run.warden.wait(PROBE_TIMEOUT)
        probe_run.warden.kill_group()
        for pid in probe_run.find_processes():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    for folder in SYSTEM_FOLDERS:
        with suppress(OSError):
            Path(folder, fixture.mark).unlink()
