"""Several orchestrators at once: one works, the others are refused, and no event is written by two."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blueflame.model.event import OrchestratorStarted
from torture.house import House
from torture.ordeals import ENDED, finish
from torture.reckoning import Tally, look
from torture.theatre import Theatre

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


def race(house: House, theatre: Theatre, verb: str, **fault: object) -> list[int]:
    with starting_line(theatre) as line:
        runners = [house.forge.start(theatre, verb, {"together": str(line), **fault}) for _ in range(RUNNERS)]
    return sorted(runner.end() for runner in runners)


def test_of_several_that_start_at_once_one_works(house: House, tally: MakeTally) -> None:
    row = tally(
        "racing to start", f"{RUNNERS} orchestrators at once on a fresh repository: one works, the rest is refused"
    )
    for _round in range(10 if house.long else 1):
        theatre, expected = house.stage("short", size=2)
        assert race(house, theatre, "run") == [0] + [REFUSED] * (RUNNERS - 1)
        assert len(look_for_starts(theatre)) == 1
        row.add(theatre, expected)


def test_of_several_that_resume_at_once_one_works(house: House, tally: MakeTally) -> None:
    row = tally("racing to resume", f"{RUNNERS} at once on the session of one that was killed")
    for seq in range(6, 46, 4) if house.long else (12,):
        theatre, expected = house.stage("short", size=2)
        row.kills += house.forge.run(theatre, "run", {"after_append": {"seq": seq}}) != 0
        assert race(house, theatre, "resume") == [0] + [REFUSED] * (RUNNERS - 1)
        assert len(look_for_starts(theatre)) == 2
        row.add(theatre, expected)


def test_where_locks_do_nothing_the_journal_still_has_one_writer(house: House, tally: MakeTally) -> None:
    """A file system without working locks. What the second one does before it is fenced off may fail attempts."""
    row = tally("racing without locks", "the same where file locks do nothing: the journal fences all but one off")
    for _round in range(5 if house.long else 1):
        theatre, expected = house.stage("short", size=2)
        row.kills += house.forge.run(theatre, "run", {"after_append": {"seq": 6}}) != 0
        codes = race(house, theatre, "resume", no_lock=True)
        assert set(codes) <= {0, ENDED, FENCED}
        finish(house.forge, theatre)
        row.add(theatre, expected, world=True)


def look_for_starts(theatre: Theatre) -> list[int]:
    found = (each.event for each in look(theatre).events)
    return [event.pid for event in found if isinstance(event, OrchestratorStarted)]
