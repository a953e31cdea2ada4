"""An earlier warden died without a word: end what it left running, so that a new attempt meets nobody."""

from __future__ import annotations

import fcntl
import os
import signal
import time

from blueflame.warden.attempt_folder import read_or_nothing
from blueflame.warden.cgroup import left_by, members_of, remove
from blueflame.warden.process_tree import Member, orphans, send_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.wakeup import Bell

KILL_PATIENCE = 10.0
BOOK_PATIENCE = 3.0


def end_orphans(folder: str, grace: float, bell: Bell) -> tuple[int, list[int]]:
    """TERM, grace, KILL. Tells how many were found, and the pids of those that would not die."""
    agent, cookie = _agent(folder), str(read_or_nothing(f"{folder}/started").get("cookie", ""))
    spools = (f"{folder}/stdout.log", f"{folder}/stderr.log", f"{folder}/setup.log")
    groups = left_by(folder)

    def left() -> list[Member]:
        return orphans(agent=agent, cookie=cookie, spools=spools, grouped=members_of(groups))

    found = left()
    send_all(found, signal.SIGTERM)
    send_all(found, signal.SIGCONT)
    began = time.monotonic()
    alive = found
    while alive and time.monotonic() < began + grace + KILL_PATIENCE:
        bell.wait(0.05)  # they are not our children: nobody rings when they end
        alive = left()
        if time.monotonic() >= began + grace:
            send_all(alive, signal.SIGKILL)
    remove(groups)
    _wait_for_book(folder)
    return len(found), [member.pid for member in alive]


def _wait_for_book(folder: str) -> None:
    """The first warden's gateway may still be reading what a last call has used; it holds its record until it ends."""
    try:
        handle = os.open(f"{folder}/usage.jsonl", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    give_up = time.monotonic() + BOOK_PATIENCE
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > give_up:
                    return
                time.sleep(0.02)
            else:
                return
    finally:
        os.close(handle)


def _agent(folder: str) -> tuple[int, int, str]:
    read = read_or_nothing(f"{folder}/agent.json")
    try:
        return int(read["pid"]), int(read["start_time"]), str(read["boot_id"])
    except (KeyError, ValueError, TypeError):  # it died before there was an agent
        return -1, -1, ""
