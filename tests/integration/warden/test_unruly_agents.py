"""Agents that misbehave on purpose, under a real warden: each ends as configured, and nothing is left running."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.wardens import (
    is_alive,
    read_agent_pid,
    read_outcome,
    read_pid,
    read_state,
    run_warden,
    running_warden,
    wait_until,
    write_launch,
)

MOST_MEMORY = 150_000_000
CAP = 32_000_000
OTHER_UID = 65_534
BOMBS = 60  # processes of the fork bomb at once

AS_OTHER_USER = f"os.setgroups([]); os.setgid({OTHER_UID}); os.setuid({OTHER_UID})\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that an agent of another user can write to; pytest's own folders are closed to others."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o711)
    place = tmp_path / "дела" / "ses-20260101-000000.task-001.worker.1"
    place.mkdir(parents=True)
    place.chmod(0o777)
    return place


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", f"import os, signal, sys, time\n{text}")


def marked(folder: Path) -> list[psutil.Process]:
    """All processes that work in the attempt's folder: found by their folder, whatever their name is."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # ended meanwhile, or not readable for us
            continue
    return found


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process, as the kernel counts it; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def seen_through(
    folder: Path, *, up: Callable[[], object] | None = None, cancel: bool = False
) -> tuple[dict[str, Any], int]:
    """Run it to its end. Return the outcome and the peak memory of the warden."""
    most = 0
    with running_warden(folder) as warden:  # which is measured while it lives: afterwards its children would count, too
        if up is not None:
            wait_until(up, "it misbehaves")
        if cancel:
            (folder / "cancel").write_text("{}")
        give_up = time.monotonic() + 60
        while warden.poll() is None:
            assert time.monotonic() < give_up, f"still {read_state(folder)}: {marked(folder)}"
            most = max(most, peak_memory(warden.pid))
            time.sleep(0.02)
    assert warden.returncode == 0
    assert marked(folder) == []
    return read_outcome(folder), most


def test_a_stuck_agent_ends_at_its_time_limit(folder: Path) -> None:
    ended, _ = seen_through(write_launch(folder, *python("time.sleep(600)"), timeout=0.5))

    assert (ended["reason"], ended["left_running"]) == ("timeout", [])


def test_a_stuck_agent_ends_when_it_has_been_silent_for_too_long(folder: Path) -> None:
    ended, _ = seen_through(write_launch(folder, *python("print('hm', flush=True); time.sleep(600)"), silence=0.5))

    assert (ended["reason"], ended["left_running"]) == ("silent", [])


BOMB = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if not os.fork():
            {apart}
    except OSError:
        open("full", "w").close()
        time.sleep(0.001)
"""


def bomb(folder: Path, apart: str) -> Path:
    """The limit on processes does not hold for root, so that as root the fork bomb runs as another user."""
    if os.getuid() == 0:
        text, user = AS_OTHER_USER, OTHER_UID
    else:
        text, user = "", os.getuid()
    running = [process.info for process in psutil.process_iter(["uids", "num_threads"])]  # None of one that has ended
    own = [info for info in running if info["uids"] is not None and info["uids"].real == user]
    taken = sum(info["num_threads"] or 0 for info in own)
    return write_launch(folder, *python(text + BOMB.format(apart=apart)), limits={"nproc": taken + BOMBS}, grace=0.3)


@pytest.mark.parametrize("apart", ["pass", "os.setsid()"], ids=["in one group", "each in a session of its own"])
def test_a_fork_bomb_is_bounded_and_ended_to_the_last(folder: Path, apart: str) -> None:
    ended, most = seen_through(bomb(folder, apart), up=(folder / "full").exists, cancel=True)

    assert (ended["reason"], ended["left_running"]) == ("cancelled", [])
    assert most < MOST_MEMORY


def test_a_fork_bomb_ends_at_the_time_limit(folder: Path) -> None:
    bomb(folder, "os.setsid()")
    launch = (folder / "launch.json").read_text().replace('"timeout": 60', '"timeout": 1')
    (folder / "launch.json").write_text(launch)
    ended, _ = seen_through(folder)

    assert (ended["reason"], ended["left_running"]) == ("timeout", [])


def test_processes_that_hand_over_to_a_child_all_the_time_are_caught(folder: Path) -> None:
    relay = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(4):
    if not os.fork():
        break
else:
    open("full", "w").close()
    time.sleep(600)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
    ended, _ = seen_through(write_launch(folder, *python(relay), grace=0.3), up=(folder / "full").exists, cancel=True)

    assert (ended["reason"], ended["left_running"]) == ("cancelled", [])


def test_an_agent_and_its_children_that_ignore_term_are_killed_after_the_grace(folder: Path) -> None:
    family = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if not os.fork():
        break
print("up", flush=True)
while True: time.sleep(1)
"""
    spool = folder / "stdout.log"

    def up() -> bool:
        return spool.exists() and spool.read_text().count("up") == 4

    ended, _ = seen_through(write_launch(folder, *python(family), grace=0.3), up=up, cancel=True)

    assert (ended["reason"], ended["signal"], ended["left_running"]) == ("cancelled", signal.SIGKILL, [])


def test_two_gigabytes_of_output_are_cut_off_and_cost_no_memory(folder: Path) -> None:
    flood = "block = b'x' * 999_999 + b'\\n'\nfor _ in range(2048): os.write(1, block)"
    ended, most = seen_through(write_launch(folder, *python(flood), max_output=CAP))

    assert ended["reason"] == "output"
    assert (folder / "stdout.log").stat().st_size == CAP
    assert most < MOST_MEMORY


def test_two_gigabytes_that_are_there_at_once_are_cut_off_as_well(folder: Path) -> None:
    ended, most = seen_through(
        write_launch(folder, *python("os.ftruncate(1, 2 << 30); time.sleep(600)"), max_output=CAP)
    )

    assert ended["reason"] == "output"
    assert (folder / "stdout.log").stat().st_size == CAP
    assert most < MOST_MEMORY


def test_an_agent_that_closes_its_output_may_work_on(folder: Path) -> None:
    works = (
        "print('bye', flush=True); os.close(1); os.close(2); time.sleep(0.5); open('work', 'w').close(); os._exit(3)"
    )
    ended, _ = seen_through(write_launch(folder, *python(works)))

    assert (ended["reason"], ended["exit_code"]) == ("exited", 3)
    assert (folder / "work").exists()
    assert (folder / "stdout.log").read_text() == "bye\n"


def test_an_agent_that_closes_its_output_counts_as_silent(folder: Path) -> None:
    ended, _ = seen_through(write_launch(folder, *python("os.close(1); os.close(2); time.sleep(600)"), silence=0.4))

    assert ended["reason"] == "silent"


DAEMON = """
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    {habit}
    for handle in range(3):
        os.close(handle)
    open("note", "w").write(f"{{os.getpid()}}\\n")
    time.sleep(600)
while not os.path.exists("note") or not os.path.getsize("note"): time.sleep(0.01)
"""
HABITS = {
    "polite": "pass",
    "deaf to TERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "without our cookie": "os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', sys.argv[1]], {{}})",
}
STRANGER = "import os, time\nopen('note', 'w').write(f'{os.getpid()}\\n')\ntime.sleep(600)"


def has_note(folder: Path) -> bool:
    note = folder / "note"
    return note.exists() and note.stat().st_size > 0


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("cancel", [False, True], ids=["agent ends itself", "agent is ended"])
def test_a_daemon_does_not_outlive_its_agent(folder: Path, habit: str, cancel: bool) -> None:
    text = DAEMON.format(habit=HABITS[habit].format()) + ("time.sleep(600)" if cancel else "os._exit(7)")
    argv = (*python(text), STRANGER)
    ended, _ = seen_through(write_launch(folder, *argv, grace=0.3), up=lambda: has_note(folder), cancel=cancel)

    assert not is_alive(read_pid(folder / "note"))
    assert ended["left_running"] == []
    assert (ended["reason"], ended["exit_code"]) == (("cancelled", None) if cancel else ("exited", 7))


def test_a_grandchild_that_keeps_files_open_is_ended_and_the_folder_can_go(folder: Path) -> None:
    keeper = """
if not os.fork():
    if os.fork():
        os._exit(0)
    kept = [open(f"kept-{n}", "w") for n in range(50)]
    with open("draft", "w") as draft:
        draft.write(f"{os.getpid()}\\n")
    os.rename("draft", "note")
    time.sleep(600)
while not os.path.exists("note"): time.sleep(0.01)
print("done", flush=True)
"""
    ended, _ = seen_through(write_launch(folder, *python(keeper)))

    assert (ended["reason"], ended["exit_code"]) == ("exited", 0)
    assert not is_alive(read_pid(folder / "note"))
    assert (folder / "stdout.log").read_text() == "done\n"


def test_a_warden_is_small(folder: Path) -> None:
    with running_warden(write_launch(folder, "sleep", "600")) as warden:
        read_agent_pid(folder)
        wait_until(lambda: read_state(folder) == "working", "it works")
        assert 0 < peak_memory(warden.pid) < 25_000_000
        warden.send_signal(signal.SIGTERM)
        assert warden.wait(20) == 0


def test_limits_of_the_machine_hold_for_the_agent(folder: Path) -> None:
    text = "from resource import *\nprint(getrlimit(RLIMIT_NPROC)[0], getrlimit(RLIMIT_NOFILE)[0])"
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 77
    run_warden(write_launch(folder, *python(text), limits={"nproc": 333, "nofile": 77}))

    assert (folder / "stdout.log").read_text() == "333 77\n"
