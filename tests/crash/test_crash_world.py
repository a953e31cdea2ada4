"""The world fails: a full disk, a folder that cannot be written, a clock that jumps, pids that are used again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blueflame.model.event import AttemptStarted
from blueflame.warden.process_tree import read_process as look_at
from crash.disruptions import KILLED, finish, kill_a_warden, kill_at, start_or_resume, until
from crash.expectations import Tally, look
from crash.harness import House
from crash.scenario import Theatre, again

pytestmark = pytest.mark.slow
MakeTally = Callable[[str, str], Tally]
OUR_OWN_BUG = 70


def mount(*argv: object) -> bool:
    return subprocess.run(["mount", *map(str, argv)], capture_output=True, check=False).returncode == 0


def umount(path: Path) -> None:
    subprocess.run(["umount", "-l", str(path)], check=True)


def told_clearly(theatre: Theatre, code: int, *words: str) -> None:
    said = theatre.log.read_text()
    assert code not in (0, OUR_OWN_BUG, KILLED), said[-3000:]
    assert "Traceback" not in said
    assert any(word in said for word in words), said[-3000:]


# --- no room


def test_a_disk_that_fills_up_costs_nothing_that_was_done(house: House, tally: MakeTally) -> None:
    place = house.home / "small"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=12m", "none", place):
        pytest.skip("no file system of its own can be made here")
    try:
        row = tally("a full disk", "a file system that is filled to the last byte while an agent works, then freed")
        theatre, expected = house.stage("short", size=2)
        theatre = again(theatre, place / "theatre")
        go, filler = house.home / "go-full", place / "filler"
        theatre.hold("task-002", go)
        orchestrator = house.forge.start(theatre, "run")
        until(lambda: at_work(theatre), "the agent that waits is at work")
        fill(filler)
        go.touch()
        told_clearly(theatre, orchestrator.end(), "disk is full", "No space left")
        filler.unlink()
        finish(house.forge, theatre)
        row.add(theatre, expected, world=True)
    finally:
        umount(place)


def at_work(theatre: Theatre) -> bool:
    """The journal knows that the agent of task-002, who waits for a word of ours, was started; and so it was."""
    if "task-002.worker.1" not in theatre.starts():
        return False
    begun = (each.event.attempt for each in look(theatre).events if isinstance(each.event, AttemptStarted))
    return any(name.endswith("task-002.worker.1") for name in begun)


def fill(path: Path) -> None:
    """To the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


def test_files_that_may_not_grow_cost_nothing_that_was_done(house: House, tally: MakeTally) -> None:
    """What a quota does, for whoever may not mount anything: the journal is the first to feel it."""
    row = tally(
        "files that may not grow", "a limit on the size of files, met by the journal and by git, then lifted bit by bit"
    )
    theatre, expected = house.stage("short", size=2)
    refusals, size = 0, 40_000
    while (code := house.forge.run(theatre, start_or_resume(theatre), {"largest_file": size})) != 0:
        told_clearly(theatre, code, "the disk failed or is full")
        refusals, size = refusals + 1, size + 20_000
    assert refusals > 1
    finish(house.forge, theatre)
    row.add(theatre, expected, world=True)


# --- a folder that cannot be written


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    if os.geteuid() != 0:
        modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
        for path, mode in modes.items():
            path.chmod(mode)
        return
    if not (mount("--bind", folder, folder) and mount("-o", "remount,bind,ro", folder)):
        pytest.skip("nothing can be made read-only here")
    try:
        yield
    finally:
        umount(folder)


def test_a_state_folder_that_cannot_be_written_is_told_and_costs_nothing(house: House, tally: MakeTally) -> None:
    """Killed, then the folder is read-only while the agent ends: its warden waits until it can say so.

    Meanwhile nothing can be written down about its calls, so it may do nothing, and its task is tried again.
    """
    row = tally(
        "a read-only folder", "`.blueflame` cannot be written while an agent ends: its warden waits until it can"
    )
    theatre, expected = house.stage("short", size=2)
    go = house.home / "go-read-only"
    theatre.hold("task-002", go)
    orchestrator = house.forge.start(theatre, "run")
    until(lambda: at_work(theatre), "the agent that waits is at work")
    row.kills += orchestrator.kill()
    with read_only(theatre.root / ".blueflame"):
        before = len(look(theatre).events)
        told_clearly(theatre, house.forge.run(theatre, "resume"), "cannot")
        assert len(look(theatre).events) == before
        go.touch()
        until(lambda: "task-002.worker.1" in theatre.ends(), "the agent has come to its end")
    finish(house.forge, theatre)
    row.add(theatre, expected)


# --- time


def test_a_clock_that_jumps_to_and_fro_changes_nothing(house: House, tally: MakeTally) -> None:
    row = tally("a clock that jumps", "hours, days and years to and fro, with kills in between")
    for seed in range(6 if house.long else 1):
        dice = random.Random(seed)
        theatre, expected = house.stage(("waves", "flow")[seed % 2]) if house.long else house.stage("short", size=2)
        faults = [{"clock": n, "after_append": {"times": dice.randint(5, 15)}} for n in range(4)]
        row.kills += len(kill_at(house.forge, theatre, faults))
        row.add(theatre, expected)


# --- pids


@contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with us."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("trait", ["start_time", "boot_id"])
def test_a_pid_that_became_another_s_is_not_touched(house: House, tally: MakeTally, trait: str) -> None:
    """The agent's pid, its warden's and the orchestrator's now are a bystander's, who differs by one trait."""
    row = tally("pids of others", "recorded pids belong to a bystander now, who must survive")
    theatre, expected = house.stage("short", size=2)
    go = house.home / f"go-{trait}"
    theatre.hold("task-002", go)
    orchestrator = house.forge.start(theatre, "run")
    until(lambda: at_work(theatre), "the agent that waits is at work")
    row.kills += orchestrator.kill()
    struck = Counter[str]()
    kill_a_warden(theatre, random.Random(0), struck)
    with bystander() as other:
        seen = look_at(other.pid)
        assert seen is not None
        (folder,) = (theatre.root / ".blueflame" / "attempts").glob("*.task-002.worker.1")
        known = json.loads((folder / "agent.json").read_text())
        changed = {"start_time": seen.start_time, "boot_id": known["boot_id"], "pid": other.pid}
        changed[trait] = known["start_time"] if trait == "start_time" else "another boot"
        (folder / "agent.json").write_text(json.dumps(changed))
        for lock in (folder / "lock", theatre.root / ".blueflame" / "orchestrator.lock"):
            lock.write_text(f"{other.pid} {seen.start_time} 2026-01-01T00:00:00Z {folder.name}\n")
        go.touch()
        finish(house.forge, theatre)
        assert other.poll() is None
    row.add(theatre, expected, wardens=struck.total())
