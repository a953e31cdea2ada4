"""Several orchestrators at once: one works, the others are refused, and no event is written by two."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blueflame.model.event import OrchestratorStarted
from crash.disruptions import ENDED, KILLED, finish, until
from crash.expectations import Expected, Tally, look
from crash.harness import House
from crash.scenario import Theatre

pytestmark = pytest.mark.slow
MakeTally = Callable[[str, str], Tally]
RUNNERS, REFUSED, FENCED = 4, 3, 4


@contextmanager
def starting_line(theatre: Theatre) -> Iterator[Path]:
    """Held until the block is left; then everybody runs."""
    path = theatre.home / "line"
    with path.open("w") as line:
        fcntl.flock(line, fcntl.LOCK_EX)
        yield path


def race(house: House, theatre: Theatre, verb: str) -> list[int]:
    """The winner cannot come to its end before all the others have come to theirs: its agent waits for them."""
    with starting_line(theatre) as line:
        runners = [house.forge.start(theatre, verb, {"together": str(line)}) for _ in range(RUNNERS)]
    until(lambda: sum(runner.wait(0) is not None for runner in runners) >= RUNNERS - 1, "all but one have ended")
    go(theatre).touch()
    return sorted(runner.end() for runner in runners)


def go(theatre: Theatre) -> Path:
    return theatre.home / "go"


def stage(house: House) -> tuple[Theatre, Expected]:
    theatre, expected = house.stage("short", size=2)
    theatre.hold("task-002", go(theatre))
    return theatre, expected


def test_of_several_that_start_at_once_one_works(house: House, tally: MakeTally) -> None:
    about = f"{RUNNERS} orchestrators at once on a fresh repository: one works, the rest is refused"
    row = tally("racing to start", about)
    for _round in range(10 if house.long else 1):
        theatre, expected = stage(house)
        assert race(house, theatre, "run") == [0] + [REFUSED] * (RUNNERS - 1)
        assert len(look_for_starts(theatre)) == 1
        row.add(theatre, expected)


def test_of_several_that_resume_at_once_one_works(house: House, tally: MakeTally) -> None:
    row = tally("racing to resume", f"{RUNNERS} at once on the session of one that was killed")
    for times in range(1, 11) if house.long else (6,):
        theatre, expected = stage(house)
        row.kills += house.forge.run(theatre, "run", {"after_append": {"times": times}}) == KILLED
        assert race(house, theatre, "resume") == [0] + [REFUSED] * (RUNNERS - 1)
        assert len(look_for_starts(theatre)) == (2 if times > 1 else 1)
        row.add(theatre, expected)
    assert row.kills == row.rounds


def test_where_locks_do_nothing_the_journal_still_has_one_writer(house: House, tally: MakeTally) -> None:
    """A file system without working locks. What the second one does before it is fenced off may fail attempts."""
    row = tally("racing without locks", "the same where file locks do nothing: the journal fences all but one off")
    for _round in range(5 if house.long else 1):
        theatre, expected = house.stage("short", size=2)
        row.kills += house.forge.run(theatre, "run", {"after_append": {"times": 3}}) == KILLED
        with starting_line(theatre) as line:
            fault = {"together": str(line), "no_lock": True}
            runners = [house.forge.start(theatre, "resume", fault) for _ in range(RUNNERS)]
        assert {runner.end() for runner in runners} <= {0, ENDED, FENCED}
        finish(house.forge, theatre)
        row.add(theatre, expected, world=True)


def look_for_starts(theatre: Theatre) -> list[int]:
    found = (each.event for each in look(theatre).events)
    return [event.pid for event in found if isinstance(event, OrchestratorStarted)]
