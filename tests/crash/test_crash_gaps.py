"""Killed between an act and the record of it: between ref and journal, between checkout, order, warden and journal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crash.disruptions import kill_at
from crash.expectations import Tally
from crash.faults import POINTS
from crash.harness import Harness

pytestmark = pytest.mark.slow
MakeTally = Callable[[str, str], Tally]

ABOUT = f"right before and right after each of these, where the journal does not know of it yet: {', '.join(POINTS)}"
FAULTS = [{"at": {"point": point, "when": when, "nth": 1}} for point in POINTS for when in ("before", "after")]


@pytest.mark.usefixtures("own_wardens")
@pytest.mark.parametrize("workflow", ["waves", "flow"])
def test_killed_in_every_gap_between_an_act_and_its_record(harness: Harness, tally: MakeTally, workflow: str) -> None:
    """One session meets all of them, one after the other."""
    if workflow == "flow" and not harness.long:
        pytest.skip("in the long run")
    scenario, expected = harness.stage(workflow) if harness.long else harness.stage("short", size=2)
    row = tally("between an act and its record", ABOUT)
    met = kill_at(harness.fork_server, scenario, FAULTS)
    row.kills = len(met)
    row.add(scenario, expected)
    assert [fault for fault in FAULTS if fault not in met] == []


def test_killed_after_git_has_changed_something(harness: Harness, tally: MakeTally) -> None:
    """After the nth command of git that changes anything, whichever it is."""
    row = tally("after any command of git", "after the nth command that changes something, for random n")
    for seed in range(20 if harness.long else 1):
        dice = harness.roll("git", seed)
        scenario, expected = (
            harness.stage(("flow", "waves")[seed % 2]) if harness.long else harness.stage("short", size=2)
        )
        row.kills += len(
            kill_at(harness.fork_server, scenario, [{"after_command": dice.randint(1, 12)} for _ in range(12)])
        )
        row.add(scenario, expected)
