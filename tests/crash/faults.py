"""Faults injected into an orchestrator: killed at an exact point, or a failure of disk, clock or locks."""

from __future__ import annotations

import fcntl
import importlib
import os
import random
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from blueflame.git import results
from blueflame.git.batch import change_refs
from blueflame.journal.journal import Journal
from blueflame.model.event import JournalEntry
from blueflame.system import disk, flock, process
from blueflame.system.clock import SystemClock

POINTS: Mapping[str, tuple[str, str]] = {
    "the base is held": ("blueflame.orchestrator.attempts.run", "set_ref"),
    "a checkout is borrowed": ("blueflame.git.checkouts", "_init_with_alternates"),
    "a checkout is made": ("blueflame.orchestrator.attempts.run", "make_checkout"),
    "an order is written": ("blueflame.orchestrator.engine.local", "_write_launch"),
    "a warden is sent": ("blueflame.orchestrator.engine.local", "start_warden"),
    "a result is fetched": ("blueflame.orchestrator.attempts.inspect_result", "collect_result"),
    "a checkout is removed": ("blueflame.orchestrator.attempts.clear", "release_checkout"),
    "all of an attempt is cleared away": ("blueflame.orchestrator.loop", "clear_attempt"),
    "a changeset has its ref": ("blueflame.orchestrator.merge_queue.assemble", "set_ref"),
    "the checkout is brought along": ("blueflame.git.landing", "_update_checkout"),
    "the base is swapped": ("blueflame.git.landing", "_swap_branch"),
    "the base is advanced": ("blueflame.orchestrator.merge_queue.build_and_land", "advance_branch"),
}
"""Acts between which and the journal there is a gap. A kill comes right before or right after one of them."""

CHANGES = frozenset(
    {
        *("init", "checkout", "reset", "update-ref", "fetch", "push", "read-tree", "write-tree", "commit-tree"),
        *("merge-tree", "hash-object", "update-index", "unpack-objects", "pack-objects"),
    }
)


def inject_fault(fault: Mapping[str, Any]) -> None:
    for name, value in sorted(fault.items()):
        FAULTS[name](value)


def kill_self(*_anything: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable: the process was killed")


def _kill_after_append(order: Mapping[str, int]) -> None:
    """Die after that many writes to the journal, or as soon as it has that many events."""
    times, seq = order.get("times", 0), order.get("seq", 0)
    real: Callable[..., Sequence[JournalEntry]] = Journal.append
    count = 0

    def append(*args: object, **more: object) -> Sequence[JournalEntry]:
        nonlocal count
        recorded = real(*args, **more)
        count += 1
        if count == times or (seq and recorded and recorded[-1].seq >= seq):
            kill_self()
        return recorded

    replace_attribute(Journal, "append", append)


def _kill_at_point(order: Mapping[str, Any]) -> None:
    """Die `before` or `after` the nth time that something of POINTS is done."""
    place, name = POINTS[order["point"]]
    module = importlib.import_module(place)
    real: Callable[..., object] = getattr(module, name)
    count = 0

    def wrapped(*args: object, **more: object) -> object:
        nonlocal count
        count += 1
        mine = count == order["nth"]
        if mine and order["when"] == "before":
            kill_self()
        outcome = real(*args, **more)
        if mine:
            kill_self()
        return outcome

    replace_attribute(module, name, wrapped)


def _kill_after_command(nth: int) -> None:
    """Die after the nth git command that changes something, whichever it is."""
    counter = count(1)

    def die_after(real: Callable[..., object], *, counts: Callable[[Sequence[object]], bool]) -> Callable[..., object]:
        def wrapped(*args: object, **more: object) -> object:
            done = real(*args, **more)
            if counts(args) and next(counter) == nth:
                kill_self()
            return done

        return wrapped

    def is_change(argv: Sequence[object]) -> bool:
        return argv[0] == "git" and not CHANGES.isdisjoint(argv)

    replace_attribute(process, "run_bytes", die_after(process.run_bytes, counts=is_change))
    replace_attribute(results, "change_refs", die_after(change_refs, counts=lambda _args: True))


def _kill_during(order: Mapping[str, Any]) -> None:
    """Kill while the nth `program` (a git that changes something, or an rm) runs: it, us, or both."""
    real: Callable[..., subprocess.Popen[bytes]] = process.start_process
    count = 0

    def start_process(argv: Sequence[str], **more: object) -> subprocess.Popen[bytes]:
        nonlocal count
        child = real(argv, **more)
        if argv[0] == order["program"] and (argv[0] != "git" or CHANGES.intersection(argv)):
            count += 1
            if count == order["nth"]:
                threading.Timer(order["seconds"], _strike, (child, order["victim"])).start()
        return child

    replace_attribute(process, "start_process", start_process)


def _strike(child: subprocess.Popen[bytes], victim: str) -> None:
    if victim != "orchestrator":
        child.kill()  # if it was not reaped: then its pid may be that of another process
    if victim != "program":
        kill_self()


def replace_attribute(owner: object, name: str, value: object) -> None:
    assert hasattr(owner, name), f"{name} is not there any more: the fault would never be met"
    setattr(owner, name, value)


def _limit_file_size(size: int) -> None:
    """Simulate a full disk: no file of ours or git's may grow beyond this. A session would refuse the limit itself."""
    disk.MIN_FILE_MB = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class JumpyClock(SystemClock):
    """A clock that is set again and again: hours, days and years back and forth."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def now(self) -> float:
        return super().now() + self._dice.choice((0.0, 0.0, -3600.0, 7200.0, -86400.0 * 400, 86400.0 * 4000))


def _set_jumpy_clock(seed: int) -> None:
    from blueflame.orchestrator import lifecycle, sessions, wiring

    jumpy = JumpyClock(seed)
    for module in (lifecycle, sessions, wiring):
        replace_attribute(module, "SystemClock", lambda: jumpy)


def _disable_lock(_order: bool) -> None:
    """Simulate a file system whose locks do nothing: only the journal's key is left."""

    @contextmanager
    def hold(_path: Path, _content: str) -> Iterator[None]:
        yield

    replace_attribute(flock, "hold_lock", hold)


def _wait_for_start(path: str) -> None:
    """Wait for the lock that the test holds until all processes are there."""
    handle = os.open(path, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_SH)
    os.close(handle)


FAULTS: Mapping[str, Callable[[Any], None]] = {
    "after_append": _kill_after_append,
    "at": _kill_at_point,
    "after_command": _kill_after_command,
    "during": _kill_during,
    "largest_file": _limit_file_size,
    "clock": _set_jumpy_clock,
    "no_lock": _disable_lock,
    "together": _wait_for_start,
}
