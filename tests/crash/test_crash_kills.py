"""kill -9 of orchestrators and wardens, after every event and at random moments: nothing lost, nothing run twice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from crash.disruptions import KILLED, finish_session, kill_after_every_event, kill_at_random
from crash.expectations import Tally
from crash.harness import Harness

pytestmark = pytest.mark.slow
MakeTally = Callable[[str, str], Tally]


@pytest.mark.parametrize("workflow", ["waves", "flow"])
def test_killed_after_every_event_a_session_ends_as_if_nothing_had_happened(
    harness: Harness, tally: MakeTally, workflow: str
) -> None:
    """One session, killed as often as it writes to its journal."""
    if workflow == "flow" and not harness.long:
        pytest.skip("in the long run")
    scenario, expected = harness.stage(workflow) if harness.long else harness.stage("short", size=2)
    row = tally("after every event", "one session, killed right after each time that it wrote to its journal")
    row.kills = kill_after_every_event(harness.fork_server, scenario)
    row.add(scenario, expected)
    assert row.kills > (50 if harness.long else 15)


def test_killed_after_one_event_a_session_ends_as_if_nothing_had_happened(harness: Harness, tally: MakeTally) -> None:
    """A fresh session for each place; in a short run for one of them."""
    row = tally("after one event", "the same places, but a session of its own for each, killed only there")
    for times in count(1) if harness.long else (12,):
        scenario, expected = harness.stage("waves") if harness.long else harness.stage("short", size=2)
        killed = harness.fork_server.run(scenario, "run", {"after_append": {"times": times}}) == KILLED
        finish_session(harness.fork_server, scenario)
        row.kills += killed
        row.add(scenario, expected)
        if not killed:
            break


@pytest.mark.parametrize(("what", "wardens"), [("orchestrators", 0.0), ("orchestrators and wardens", 0.4)])
def test_killed_at_random_moments_nothing_is_lost_and_nothing_runs_twice(
    harness: Harness, tally: MakeTally, what: str, wardens: float
) -> None:
    row = tally(f"at random: {what}", "every 30 to 600 ms, with dice that are the same in every run")
    seed = 0
    if wardens and not harness.long:
        wardens = 1.0  # of few kills, each
    while row.kills < harness.kills // 2:
        dice = harness.roll(what, seed)
        scenario, expected = (
            harness.stage(("waves", "flow")[seed % 2], size=9) if harness.long else harness.stage("short", size=2)
        )
        toll = kill_at_random(harness.fork_server, scenario, dice, most=harness.kills // 2 - row.kills, wardens=wardens)
        row.kills += toll.kills
        row.add(scenario, expected, wardens=toll.wardens)
        seed += 1


def test_killed_while_it_stops_nothing_is_lost_and_nothing_runs_twice(harness: Harness, tally: MakeTally) -> None:
    """Agents that are asked to end run again; whether the stop completes must make no difference."""
    row = tally(
        "while it stops", "Ctrl-C, SIGTERM or SIGHUP, and killed soon after; agents that were ended are done again"
    )
    for seed in range(12 if harness.long else 1):
        dice = harness.roll("stop", seed)
        scenario, expected = (
            harness.stage(("flow", "waves")[seed % 2]) if harness.long else harness.stage("short", size=2)
        )
        most = 8 if harness.long else 3
        toll = kill_at_random(harness.fork_server, scenario, dice, most=most, wardens=0.2, asks=True)
        row.kills += toll.kills
        row.add(scenario, expected, wardens=toll.wardens, world=True)
