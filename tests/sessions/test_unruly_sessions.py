"""Agents that misbehave in a session: each ends as configured, the others go on, and we stay small."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import psutil

from blueflame.model.attempt import Ending
from blueflame.model.event import AttemptEnded
from support.sessions import Orchestrator, Stage, plan_of, start_orchestrator, task, writes

MOST_MEMORY = 150_000_000


def python(text: str) -> dict[str, str]:
    return {"run": shlex.join([sys.executable, "-I", "-S", "-c", f"import os, signal, time\n{text}"])}


def to_its_end(running: Orchestrator) -> int:
    """The most memory that the orchestrator ever had, looked at with each event."""
    most, status = 0, Path(f"/proc/{running.process.pid}/status")
    for _line in running.lines():
        most = max(most, *(int(line.split()[1]) * 1024 for line in _read(status) if line.startswith("VmHWM:")), 0)
    assert running.end() == 0, running.seen[-3:]
    return most


def _read(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def at_work_in(folder: Path) -> list[int]:
    """Processes that work in one of the checkouts."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


CROWD = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(40):
    if not os.fork():
        os.setsid()
        while True: time.sleep(1)
while True: time.sleep(1)
"""
DAEMON = """
if not os.fork():
    os.setsid()
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 3)
        time.sleep(600)
"""


CHATTER = ({"flood": 8}, {"usage": {"cost_usd": 0.01}}, {"flood": 8})


def test_the_unruly_end_as_configured_the_others_go_on_and_we_stay_small(stage: Stage) -> None:
    stage.reconfigure(
        limits={"max_retries": 0, "kill_grace": "500ms", "stall_timeout": "4s", "on_stall": "kill"},
        concurrency={"adaptive": False, "development": 8},
    )
    workers: dict[int, object] = {
        1: "stuck",
        2: "stubborn",
        3: [python(CROWD)],
        4: writes("src/4.txt", "four", python(DAEMON)),
        5: [{"flood": 2000}],
        6: writes("src/6.txt", "six", {"run": "exec >&- 2>&-; sleep 0.3; echo closed > src/6.txt"}),
        7: writes("src/7.txt", "seven", *CHATTER),
        8: writes("src/8.txt", "eight", *CHATTER),
    }
    stage.play(planner=plan_of(*(task(n) for n in workers)), workers=workers)
    most = to_its_end(start_orchestrator(stage, {"session": ["stop"]}, program=True))
    session, events = stage.look()
    endings = {
        session.attempts[event.event.attempt].attempt.subject: event.event.ended.ending
        for event in events
        if isinstance(event.event, AttemptEnded)
    }
    assert endings == {
        "plan": Ending.PASSED,
        "task-001": Ending.STALLED,
        "task-002": Ending.STALLED,
        "task-003": Ending.STALLED,
        "task-004": Ending.PASSED,
        "task-005": Ending.FAILED,
        "task-006": Ending.PASSED,
        "task-007": Ending.PASSED,
        "task-008": Ending.PASSED,
    }
    assert at_work_in(stage.root) == []
    assert stage.read("src/7.txt") == "seven\n"
    assert session.spend.usd == 0.02
    assert 0 < most < MOST_MEMORY
    spool = next((stage.root / ".blueflame" / "attempts").glob("*task-005.worker.1")) / "stdout.log"
    assert spool.stat().st_size <= 200 * 1024 * 1024
    spool.unlink()
