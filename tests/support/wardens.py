"""Wardens for tests: started as the engine starts them, and proof that nothing is left running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import blueflame

ROOT = Path(blueflame.__file__).parents[1]
ENTRY = (
    "import sys; sys.path.insert(0, sys.argv[1]); from blueflame.warden.main import main; sys.exit(main(sys.argv[2:]))"
)
PATIENCE = 20.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"timed out waiting until {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def write_launch(folder: Path, *argv: str, **more: object) -> Path:
    """Prepare a folder as the engine does."""
    folder.mkdir(parents=True, exist_ok=True)
    launch = {
        "attempt": folder.name,
        "argv": list(argv),
        "env": {"PATH": os.environ["PATH"], "DIR": str(folder)},
        "cwd": str(folder),
        "timeout": 60,
        "grace": 5,
        **more,
    }
    (folder / "launch.json").write_text(json.dumps(launch))
    return folder


def start_warden(folder: Path, stderr: int | None = None) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", ENTRY, str(ROOT), str(folder)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=stderr, start_new_session=True)


@contextmanager
def running_warden(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with start_warden(folder) as warden:
        try:
            yield warden
        finally:
            if warden.poll() is None:
                warden.terminate()


def run_warden(folder: Path) -> dict[str, Any]:
    with running_warden(folder) as warden:
        assert warden.wait(PATIENCE) == 0
    return read_outcome(folder)


def read_outcome(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return found


def read_pid(path: Path) -> int:
    """Read the pid that a process wrote into a file."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} holds a pid")
    return int(path.read_text())


def read_agent_pid(folder: Path) -> int:
    wait_until((folder / "agent.json").exists, "the agent is known")
    return int(json.loads((folder / "agent.json").read_text())["pid"])


def read_state(folder: Path) -> str:
    try:
        return str(json.loads((folder / "status.json").read_text())["state"])
    except FileNotFoundError:
        return ""
