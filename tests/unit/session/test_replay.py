from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.errors import InternalError
from blueflame.model.event import CycleStarted, Event, JournalEntry, OrchestratorStarted, SessionOpened, WaveStarted
from blueflame.model.limits import Capacity
from blueflame.session.decide import next_events
from blueflame.session.effects import effects_due
from blueflame.session.replay import HANDLERS, apply_event, open_session, replay
from blueflame.session.scheduling.ready_queue import ReadyQueue
from blueflame.session.scheduling.settled_groups import SettledGroups
from blueflame.session.scheduling.stage_queue import StageQueue
from blueflame.session.scheduling.verified_work import UnmergedWork
from blueflame.session.state import Session
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation, build_opening
from support.random_sessions import worlds
from support.session_examples import task

CAPACITY = Capacity(agents=1_000)


def pictured(session: Session) -> dict[str, Any]:
    """Every field of a session in a form that can be compared."""
    return {field.name: _plain(getattr(session, field.name)) for field in fields(session)}


def _plain(value: Any) -> Any:  # noqa: ANN401  a session holds all kinds of things
    if isinstance(value, ReadyQueue):
        return value.pick(1_000)
    if isinstance(value, UnmergedWork):
        return value.find_overlapping(["."])
    if isinstance(value, StageQueue):
        return list(value.list_all())
    if isinstance(value, SettledGroups):
        return sorted(value.list_tasks())
    if isinstance(value, dict):
        return list(value.items())
    return value


@settings(max_examples=10)
@given(worlds())
def test_a_session_is_the_same_live_and_replayed_after_every_step(world: Simulation) -> None:
    for _ in range(60):
        again = replay(world.journal)
        assert pictured(again) == pictured(world.session)
        assert next_events(again, CAPACITY) == next_events(world.session, CAPACITY)
        assert effects_due(again) == effects_due(world.session)
        if not world.step():
            break


@settings(max_examples=20)
@given(worlds(), st.data())
def test_one_by_one_equals_all_at_once_at_any_event(world: Simulation, data: st.DataObject) -> None:
    journal = world.run().journal
    cut = data.draw(st.integers(1, len(journal)))
    session = open_session(journal[0])
    for recorded in journal[1:cut]:
        apply_event(session, recorded)
        effects_due(session), next_events(session, CAPACITY)  # asking changes nothing
    assert pictured(session) == pictured(replay(journal[:cut]))


def test_a_journal_must_begin_with_a_session() -> None:
    with pytest.raises(InternalError, match="must begin with SessionOpened, not OrchestratorStarted"):
        replay([JournalEntry(1, 0.0, OrchestratorStarted(pid=1))])


def test_an_empty_journal_is_no_session() -> None:
    with pytest.raises(InternalError, match="nothing to replay"):
        replay([])


@pytest.mark.parametrize("seq", [1, 3, 99])
def test_a_gap_or_a_repetition_in_the_journal_is_refused(seq: int) -> None:
    session = replay([build_opening()])
    before = pictured(session)
    with pytest.raises(InternalError, match=f"event {seq} of .* does not follow event 1"):
        apply_event(session, JournalEntry(seq, 0.0, OrchestratorStarted(pid=1)))
    assert pictured(session) == before


def test_a_second_opening_is_refused() -> None:
    with pytest.raises(InternalError, match=r"event 2 of .* is SessionOpened in mid-session"):
        replay([build_opening(), JournalEntry(2, 0.0, build_opening().event)])


def test_every_kind_of_event_can_be_applied() -> None:
    assert set(HANDLERS) == set(get_args(Event)) - {SessionOpened}


def test_an_outdated_start_of_a_wave_or_a_cycle_changes_nothing() -> None:
    """A boundary that was looked at before the session went on without it."""
    world = Simulation(SimulatedOutcomes((task(1),)), [build_opening()])
    while world.session.wave != "validate":
        assert world.step()
    waves = (WaveStarted(cycle=1, stage="work"), WaveStarted(cycle=9, stage="merge"))
    late_news = (*waves, CycleStarted(cycle=1, base_sha="x"))
    for late in late_news:
        before = pictured(world.session)
        apply_event(world.session, JournalEntry(world.session.seq + 1, world.session.last_at, late))
        assert pictured(world.session) | {"seq": 0} == before | {"seq": 0}
