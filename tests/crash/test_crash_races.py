"""Several orchestrators at once: one works, the others are refused, and no event is written by two."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blueflame.model.event import OrchestratorStarted
from crash.disruptions import ENDED, KILLED, finish_session, wait_until
from crash.expectations import Expected, Tally, read_result
from crash.harness import Harness
from crash.scenario import Scenario

pytestmark = pytest.mark.slow
MakeTally = Callable[[str, str], Tally]
RUNNERS, REFUSED, FENCED = 4, 3, 4


@contextmanager
def starting_line(scenario: Scenario) -> Iterator[Path]:
    """Hold the lock until the block ends; then all processes run."""
    path = scenario.home / "line"
    with path.open("w") as line:
        fcntl.flock(line, fcntl.LOCK_EX)
        yield path


def race(harness: Harness, scenario: Scenario, verb: str) -> list[int]:
    """Race the processes; the winner cannot end before the others, because its agent waits for them."""
    with starting_line(scenario) as line:
        runners = [harness.fork_server.start(scenario, verb, {"together": str(line)}) for _ in range(RUNNERS)]
    wait_until(lambda: sum(runner.wait(0) is not None for runner in runners) >= RUNNERS - 1, "all but one have ended")
    go(scenario).touch()
    return sorted(runner.end() for runner in runners)


def go(scenario: Scenario) -> Path:
    return scenario.home / "go"


def stage(harness: Harness) -> tuple[Scenario, Expected]:
    scenario, expected = harness.stage("short", size=2)
    scenario.hold("task-002", go(scenario))
    return scenario, expected


def test_of_several_that_start_at_once_one_works(harness: Harness, tally: MakeTally) -> None:
    about = f"{RUNNERS} orchestrators at once on a fresh repository: one works, the rest is refused"
    row = tally("racing to start", about)
    for _round in range(10 if harness.long else 1):
        scenario, expected = stage(harness)
        assert race(harness, scenario, "run") == [0] + [REFUSED] * (RUNNERS - 1)
        assert len(look_for_starts(scenario)) == 1
        row.add(scenario, expected)


def test_of_several_that_resume_at_once_one_works(harness: Harness, tally: MakeTally) -> None:
    row = tally("racing to resume", f"{RUNNERS} at once on the session of one that was killed")
    for times in range(1, 11) if harness.long else (6,):
        scenario, expected = stage(harness)
        row.kills += harness.fork_server.run(scenario, "run", {"after_append": {"times": times}}) == KILLED
        assert race(harness, scenario, "resume") == [0] + [REFUSED] * (RUNNERS - 1)
        assert len(look_for_starts(scenario)) == (2 if times > 1 else 1)
        row.add(scenario, expected)
    assert row.kills == row.rounds


def test_where_locks_do_nothing_the_journal_still_has_one_writer(harness: Harness, tally: MakeTally) -> None:
    """A file system without working locks. What the second one does before it is fenced off may fail attempts."""
    row = tally("racing without locks", "the same where file locks do nothing: the journal fences all but one off")
    for _round in range(5 if harness.long else 1):
        scenario, expected = harness.stage("short", size=2)
        row.kills += harness.fork_server.run(scenario, "run", {"after_append": {"times": 3}}) == KILLED
        with starting_line(scenario) as line:
            fault = {"together": str(line), "no_lock": True}
            runners = [harness.fork_server.start(scenario, "resume", fault) for _ in range(RUNNERS)]
        assert {runner.end() for runner in runners} <= {0, ENDED, FENCED}
        finish_session(harness.fork_server, scenario)
        row.add(scenario, expected, world=True, fenced=True)


def look_for_starts(scenario: Scenario) -> list[int]:
    found = (each.event for each in read_result(scenario).events)
    return [event.pid for event in found if isinstance(event, OrchestratorStarted)]
