# ruff: noqa: T201, PTH123, PTH208 (a script that runs as anybody, and looks at /proc in a hurry)
"""Kill bubblewrap, or its warden, at a random moment of the start; then look for processes that survived.

    python kill_race.py SOURCES FOLDER ROUNDS SEED {box,warden} BWRAP-ARGV...

Wardens are forked from this process, so that a round takes milliseconds. Prints one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

LONGEST = 0.02  # seconds between the first sight of the sandbox and the kill
MOMENT = 1.0  # seconds after the kill in which the kernel must have ended it all
PAYLOAD = "while :; do : > beat; sleep 0.01; done # {mark}"


def main(place: str, rounds: int, seed: int, victim: str, box: list[str]) -> dict[str, int]:
    for module in ("main", "namespaces", "entry_script"):  # once for all rounds
        importlib.import_module(f"blueflame.warden.{module}")
    chance = random.Random(seed)
    found = {"rounds": 0, "before_it_ran": 0, "survivors": 0, "ran_on": 0, "unrecorded": 0}
    for number in range(rounds):
        folder = Path(place) / f"round-{number}"
        folder.mkdir()
        for what, count in run_round(folder, chance.uniform(0, LONGEST), victim, box).items():
            found[what] += count
    return found


def run_round(folder: Path, delay: float, victim: str, box: list[str]) -> dict[str, int]:
    mark = f"mark-{os.urandom(8).hex()}"
    net = "none" if "--unshare-net" in box else "doors"
    argv = [word.replace("@FOLDER@", str(folder)) for word in box]
    launch = {
        "attempt": folder.name,
        "argv": ["/bin/sh", "-c", PAYLOAD.format(mark=mark)],
        "env": {"PATH": "/usr/bin:/bin"},
        "cwd": str(folder),
        "grace": 1,
        "sandbox": {"argv": argv, "net": net, "seccomp": None},
    }
    (folder / "launch.json").write_text(json.dumps(launch))
    warden = start_warden(folder)
    killed_at = kill_victim(warden, folder, delay, victim)
    os.waitpid(warden, 0)
    left = wait_until_gone(mark, killed_at + MOMENT) if victim == "warden" else find_processes_with(mark)
    last = (folder / "beat").stat().st_mtime if (folder / "beat").exists() else 0.0
    return {
        "rounds": 1,
        "before_it_ran": not last,
        "survivors": bool(left),
        "ran_on": last > killed_at + MOMENT,
        "unrecorded": victim == "box" and not (folder / "outcome.json").exists(),
    }


def start_warden(folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            from blueflame.warden.main import main as guard

            code = guard([str(folder)])
        finally:
            os._exit(code)
    return pid


def kill_victim(warden: int, folder: Path, delay: float, victim: str) -> float:
    """The sandbox is known once its pid is on record, which is before it exists as a sandbox."""
    note = folder / "agent.json"
    give_up = time.monotonic() + 10
    while not note.exists() and time.monotonic() < give_up:
        pass
    pid = warden if victim == "warden" else int(json.loads(note.read_text())["pid"])
    until = time.monotonic() + delay
    while time.monotonic() < until:
        pass
    os.kill(pid, signal.SIGKILL)
    return time.time()


def wait_until_gone(mark: str, give_up: float) -> list[int]:
    while (left := find_processes_with(mark)) and time.time() < give_up:
        time.sleep(0.005)
    return left


def find_processes_with(mark: str) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as line, open(f"/proc/{entry}/stat") as stat:
                    if mark.encode() in line.read() and stat.read().rpartition(")")[2].split()[0] != "Z":
                        found.append(int(entry))
            except OSError:
                continue
    return found


if __name__ == "__main__":
    sources, place, rounds, seed, victim, *box = sys.argv[1:]
    sys.path.insert(0, sources)
    print(json.dumps(main(place, int(rounds), int(seed), victim, box)))
