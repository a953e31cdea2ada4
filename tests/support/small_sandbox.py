"""A small sandbox for the warden's tests, as our own user or an ordinary one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.wardens import ENTRY, PATIENCE, ROOT, read_outcome, write_launch

BWRAP = shutil.which("bwrap") or ""
STRANGER = 12_345  # a user that owns nothing on any machine
SUITS = "import os, sys; sys.exit(sys.version_info < (3, 11) or not os.access(sys.argv[1], os.R_OK))"


@dataclass(frozen=True, slots=True)
class SystemUser:
    """The user that runs the warden, and its Python."""

    name: str
    argv: tuple[str, ...]
    python: str

    @property
    def is_root(self) -> bool:
        return not self.argv and os.getuid() == 0


def list_users() -> list[str]:
    return ["ourselves", "an ordinary user"]


def find_user(name: str) -> SystemUser:
    if not BWRAP:
        pytest.skip("bubblewrap is not installed")
    found = SystemUser(name, (), sys.executable) if name == "ourselves" else _find_ordinary_user()
    if not can_run(found.argv):
        pytest.skip(f"{name} cannot make a sandbox here (user namespaces are forbidden?)")
    return found


def _find_ordinary_user() -> SystemUser:
    if os.getuid() != 0:
        pytest.skip("we are an ordinary user already")
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    change = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--")
    argv = (*change, "sh", "-c", 'exec "$@"', "sh")  # setpriv itself still looks up its program with root's rights
    python = find_python(argv)
    if not python:
        pytest.skip("an ordinary user can run no Python 3.11 here")
    return SystemUser("an ordinary user", argv, python)


@cache
def find_python(argv: tuple[str, ...]) -> str:
    """Ours may be in a person's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        trial = [*argv, python, "-I", "-S", "-c", SUITS, str(ROOT / "blueflame/warden/main.py")]
        if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return python
    return ""


@cache
def can_run(argv: tuple[str, ...]) -> bool:
    trial = [*argv, BWRAP, "--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "true"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


@contextmanager
def make_shared_folder() -> Iterator[Path]:
    """An attempt's folder for the user we run as. Not below pytest's own, which other users cannot enter."""
    with tempfile.TemporaryDirectory(prefix="blueflame-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "дела" / "ses-20260101-000000.task-001.worker.1"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        yield folder


def build_bwrap_argv(folder: Path, *more: str, net: str = "none") -> list[str]:
    root = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for name in ("bin", "sbin", "lib", "lib64"):
        root += ["--symlink", f"usr/{name}", f"/{name}"] if Path(f"/{name}").is_symlink() else []
    spaces = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    spaces += ["--unshare-net"] if net == "none" else []
    mine = ["--bind", str(folder), str(folder), "--chdir", str(folder)]
    return [BWRAP, *root, *mine, *spaces, "--die-with-parent", "--new-session", *more, "--"]


def build_sandbox_options(folder: Path, *more: str, net: str = "none", seccomp: str | None = None) -> dict[str, Any]:
    return {"argv": build_bwrap_argv(folder, *more, net=net), "net": net, "seccomp": seccomp}


def write_sandboxed_launch(folder: Path, *argv: str, net: str = "none", **more: object) -> Path:
    """Write the launch file for `argv` in a sandbox, with a plain environment."""
    walls: dict[str, Any] = {
        "env": {"PATH": "/usr/bin:/bin"},
        "sandbox": build_sandbox_options(folder, net=net),
        **more,
    }
    return write_launch(folder, *argv, **walls)


@contextmanager
def running_warden_as(who: SystemUser, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [*who.argv, who.python, "-I", "-S", "-E", "-X", "utf8", "-c", ENTRY, str(ROOT), str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True) as warden:
        try:
            yield warden
        finally:
            if warden.poll() is None:
                warden.terminate()


def run_warden_as(who: SystemUser, folder: Path) -> dict[str, Any]:
    with running_warden_as(who, folder) as warden:
        assert warden.wait(PATIENCE) == 0
    return read_outcome(folder)


def read_stdout(folder: Path) -> str:
    return (folder / "stdout.log").read_text()


def find_processes_with(mark: str) -> list[int]:
    """Return processes whose command line has `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(entry.name))
    return found
