"""Laws of whole sessions: whatever the plan, the world and the people do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.limits import Limits, Workflow
from blueflame.model.task import Task
from blueflame.rules.replay import apply, open_session
from blueflame.simulation import World, opened
from session_worlds import Dice, Odds, ended_well, faults, odds, plans, settings, workflows

MOST_STEPS = 5_000

seeds = st.integers(0, 2**32)


def world(plan: tuple[Task, ...], workflow: Workflow, limits: Limits, seed: int, chances: Odds) -> World:
    return World(Dice(plan, seed, chances), [opened(workflow=workflow, limits=limits)])


def run(played: World) -> World:
    for _ in range(MOST_STEPS):
        if not played.step():
            return played
    raise AssertionError("the session never ends")


@given(plans(), workflows, settings(), seeds, odds())
def test_a_session_keeps_its_order_and_comes_to_an_end(
    plan: tuple[Task, ...], workflow: Workflow, limits: Limits, seed: int, chances: Odds
) -> None:
    played = run(world(plan, workflow, limits, seed, chances))
    session = open_session(played.journal[0])
    ends = set(played.transactions)
    for recorded in played.journal[1:]:
        apply(session, recorded)
        if recorded.seq in ends:
            assert not list(faults(session)), recorded
    assert ended_well(played.session)
