"""kill -9 of orchestrators and wardens, after every event and at random moments: nothing lost, nothing run twice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from torture.house import House
from torture.ordeals import finish, kill_after_every_event, kill_at_random
from torture.reckoning import Tally

pytestmark = pytest.mark.slow
MakeTally = Callable[[str], Tally]


@pytest.mark.parametrize("workflow", ["waves", "flow"])
def test_killed_after_every_event_a_session_ends_as_if_nothing_had_happened(
    house: House, tally: MakeTally, workflow: str
) -> None:
    """One session, killed as often as it writes to its journal."""
    if workflow == "flow" and not house.long:
        pytest.skip("in the long run")
    theatre, expected = house.stage(workflow)
    row = tally("after every event, one session")
    row.kills = kill_after_every_event(house.forge, theatre)
    row.add(theatre, expected)
    assert row.kills > 50


def test_killed_after_one_event_a_session_ends_as_if_nothing_had_happened(house: House, tally: MakeTally) -> None:
    """A fresh session for each place; in a short run for one of them."""
    row = tally("after one event, a session for each")
    _theatre, expected = house.stage("waves")
    last = expected.events
    for place in range(1, last + 1) if house.long else [random.Random(3).randint(last // 3, last - 3)]:
        theatre, expected = house.stage("waves")
        row.kills += house.forge.run(theatre, "run", {"after_append": {"seq": place}}) != 0
        finish(house.forge, theatre)
        row.add(theatre, expected)


@pytest.mark.parametrize(("what", "wardens"), [("orchestrators", 0.0), ("orchestrators and wardens", 0.4)])
def test_killed_at_random_moments_nothing_is_lost_and_nothing_runs_twice(
    house: House, tally: MakeTally, what: str, wardens: float
) -> None:
    row = tally(f"at random, {what}")
    seed = 0
    while row.kills < house.kills // 2:
        dice = random.Random(f"{what} {seed}")
        theatre, expected = house.stage(("waves", "flow")[seed % 2], size=4 if not house.long else 9)
        toll = kill_at_random(house.forge, theatre, dice, most=house.kills // 2 - row.kills, wardens=wardens)
        row.kills += toll.kills
        row.add(theatre, expected, wardens=toll.wardens)
        seed += 1
