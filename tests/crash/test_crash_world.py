"""Faults of the machine: a full disk, a folder that cannot be written, a clock that jumps, reused pids."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from blueflame.model.event import AttemptStarted
from blueflame.warden.process_tree import read_process as look_at
from crash.disruptions import KILLED, finish_session, kill_a_warden, kill_at, start_or_resume, wait_until
from crash.expectations import Tally, read_result
from crash.harness import Harness
from crash.scenario import Scenario, copy_scenario
from support.disks import fill, mounted, read_only

pytestmark = pytest.mark.slow
MakeTally = Callable[[str, str], Tally]
OUR_OWN_BUG = 70


def reported_clearly(scenario: Scenario, code: int, *words: str) -> None:
    said = scenario.log.read_text()
    assert code not in (0, OUR_OWN_BUG, KILLED), said[-3000:]
    assert "Traceback" not in said
    assert any(word in said for word in words), said[-3000:]


# --- no room


def test_a_disk_that_fills_up_costs_nothing_that_was_done(harness: Harness, tally: MakeTally) -> None:
    place = harness.home / "small"
    with mounted(place, 12):
        row = tally("a full disk", "a file system that is filled to the last byte while an agent works, then freed")
        scenario, expected = harness.stage("short", size=2)
        scenario = copy_scenario(scenario, place / "scenario")
        go, filler = harness.home / "go-full", place / "filler"
        scenario.hold("task-002", go)
        orchestrator = harness.fork_server.start(scenario, "run")
        wait_until(lambda: at_work(scenario), "the agent that waits is at work")
        fill(filler)
        go.touch()
        reported_clearly(scenario, orchestrator.end(), "disk is full", "No space left")
        filler.unlink()
        finish_session(harness.fork_server, scenario)
        row.add(scenario, expected, world=True)


def at_work(scenario: Scenario) -> bool:
    """Wait until the agent of task-002, which waits for us, has started and the journal has it."""
    if "task-002.worker.1" not in scenario.starts():
        return False
    begun = (each.event.attempt for each in read_result(scenario).events if isinstance(each.event, AttemptStarted))
    return any(name.endswith("task-002.worker.1") for name in begun)


def test_files_that_may_not_grow_cost_nothing_that_was_done(harness: Harness, tally: MakeTally) -> None:
    """A quota without the right to mount: the journal is the first to fail."""
    row = tally(
        "files that may not grow", "a limit on the size of files, met by the journal and by git, then lifted bit by bit"
    )
    scenario, expected = harness.stage("short", size=2)
    refusals, size = 0, 40_000
    while (code := harness.fork_server.run(scenario, start_or_resume(scenario), {"largest_file": size})) != 0:
        reported_clearly(scenario, code, "the disk failed or is full")
        refusals, size = refusals + 1, size + 20_000
    assert refusals > 1
    finish_session(harness.fork_server, scenario)
    row.add(scenario, expected, world=True)


# --- a folder that cannot be written


def test_a_state_folder_that_cannot_be_written_is_reported_and_loses_nothing(
    harness: Harness, tally: MakeTally
) -> None:
    """Killed, then the folder is read-only while the agent ends: its warden waits until it can record that.

    Meanwhile its calls cannot be audited, so they are refused, and its task is tried again.
    """
    row = tally(
        "a read-only folder", "`.blueflame` cannot be written while an agent ends: its warden waits until it can"
    )
    scenario, expected = harness.stage("short", size=2)
    go = harness.home / "go-read-only"
    scenario.hold("task-002", go)
    orchestrator = harness.fork_server.start(scenario, "run")
    wait_until(lambda: at_work(scenario), "the agent that waits is at work")
    row.kills += orchestrator.kill()
    with read_only(scenario.root / ".blueflame"):
        before = len(read_result(scenario).events)
        reported_clearly(scenario, harness.fork_server.run(scenario, "resume"), "cannot")
        assert len(read_result(scenario).events) == before
        go.touch()
        wait_until(lambda: "task-002.worker.1" in scenario.ends(), "the agent has come to its end")
    finish_session(harness.fork_server, scenario)
    row.add(scenario, expected)


# --- time


def test_a_clock_that_jumps_to_and_fro_changes_nothing(harness: Harness, tally: MakeTally) -> None:
    row = tally("a clock that jumps", "hours, days and years to and fro, with kills in between")
    for seed in range(6 if harness.long else 1):
        dice = harness.roll("clock", seed)
        scenario, expected = (
            harness.stage(("waves", "flow")[seed % 2]) if harness.long else harness.stage("short", size=2)
        )
        faults = [{"clock": n, "after_append": {"times": dice.randint(5, 15)}} for n in range(4)]
        row.kills += len(kill_at(harness.fork_server, scenario, faults))
        row.add(scenario, expected)


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
def test_a_pid_that_became_another_s_is_not_touched(harness: Harness, tally: MakeTally, trait: str) -> None:
    """The pids of agent, warden and orchestrator now belong to another process, which differs by one property."""
    row = tally("pids of others", "recorded pids belong to a bystander now, who must survive")
    scenario, expected = harness.stage("short", size=2)
    go = harness.home / f"go-{trait}"
    scenario.hold("task-002", go)
    orchestrator = harness.fork_server.start(scenario, "run")
    wait_until(lambda: at_work(scenario), "the agent that waits is at work")
    row.kills += orchestrator.kill()
    struck = Counter[str]()
    kill_a_warden(scenario, random.Random(0), struck)
    with bystander() as other:
        seen = look_at(other.pid)
        assert seen is not None
        (folder,) = (scenario.root / ".blueflame" / "attempts").glob("*.task-002.worker.1")
        known = json.loads((folder / "agent.json").read_text())
        changed = {"start_time": seen.start_time, "boot_id": known["boot_id"], "pid": other.pid}
        changed[trait] = known["start_time"] if trait == "start_time" else "another boot"
        (folder / "agent.json").write_text(json.dumps(changed))
        for lock in (folder / "lock", scenario.root / ".blueflame" / "orchestrator.lock"):
            lock.write_text(f"{other.pid} {seen.start_time} 2026-01-01T00:00:00Z {folder.name}\n")
        go.touch()
        finish_session(harness.fork_server, scenario)
        assert other.poll() is None
    row.add(scenario, expected, wardens=struck.total())
