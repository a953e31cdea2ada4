"""The state of the house: what each event does to a request, and the law of replay."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.dispatch.state import FINAL_STATES, LASTING_SECONDS, TRANSITIONS, House, fold_request, replay_house
from blueflame.model.errors import InternalError
from blueflame.model.house.event import (
    FINAL,
    HOUSE,
    HouseEntry,
    HouseEvent,
    RequestEnded,
    RequestQueued,
    RequestReceived,
    RequestState,
    SessionFound,
    SourceWarned,
    StartFailed,
    StartIntended,
)
from support.event_strategies import build_events
from support.house_requests import build_entries, build_request

RECEIVED = RequestReceived(request=build_request(), repository="shop")


@st.composite
def histories(draw: st.DrawFn) -> list[HouseEntry]:
    """Any mixture of requests, each going any way that the table allows."""
    states: dict[str, RequestState] = {}
    entries: list[HouseEntry] = []
    for n in range(1, draw(st.integers(1, 25)) + 1):
        name = draw(st.sampled_from(["req-1", "req-2", "req-3"]))
        if name not in states:
            event: HouseEvent = RECEIVED
            states[name] = RequestState.RECEIVED
        else:
            able = [kind for kind, steps in TRANSITIONS.items() if states[name] in steps]
            if not able:
                continue
            kind = draw(st.sampled_from(able))
            event = draw(build_events(kind))
            states[name] = TRANSITIONS[kind][states[name]]
        entries.append(HouseEntry(n=n, stream=name, at=float(n), event=event))
    return entries


@given(histories())
def test_applying_one_by_one_is_the_same_as_reading_what_has_not_ended(entries: list[HouseEntry]) -> None:
    house, streams = House(), defaultdict[str, list[HouseEntry]](list)
    for entry in entries:
        house.apply(entry)
        streams[entry.stream].append(entry)
    ended = {name for name, own in streams.items() if isinstance(own[-1].event, FINAL)}
    assert replay_house(each for each in entries if each.stream not in ended) == house
    for name, own in streams.items():
        folded = fold_request(own)
        assert folded is not None
        assert (folded.state in FINAL_STATES) == (name in ended) == (name not in house.requests)
        assert name in ended or folded == house.requests[name]


def test_a_final_event_leads_to_a_final_state_and_nothing_leads_out_of_one() -> None:
    for kind, steps in TRANSITIONS.items():
        assert not set(steps) & set(FINAL_STATES)
        assert (kind in FINAL) == (set(steps.values()) <= set(FINAL_STATES))
    reached = {after for steps in TRANSITIONS.values() for after in steps.values()}
    assert reached | {RequestState.RECEIVED} == set(RequestState)


def test_a_request_goes_from_its_arrival_to_its_end() -> None:
    events = (RECEIVED, RequestQueued(), StartIntended(), SessionFound(session="ses-1"))
    (record,) = replay_house(build_entries("req-1", *events)).requests.values()
    assert (record.state, record.session, record.repository) == (RequestState.RUNNING, "ses-1", "shop")
    ended = fold_request(build_entries("req-1", *events, RequestEnded(outcome="completed", usd=0.5)))
    assert ended is not None
    assert (ended.state, ended.outcome, ended.usd) == (RequestState.ENDED, "completed", 0.5)


def test_a_failed_start_puts_it_back_with_the_reason() -> None:
    entries = build_entries("req-1", RECEIVED, RequestQueued(), StartIntended(), StartFailed(reason="dirty"))
    (record,) = replay_house(entries).requests.values()
    assert (record.state, record.problem, record.starts) == (RequestState.QUEUED, "dirty", 1)


def test_only_processes_that_fail_one_after_the_other_are_counted() -> None:
    entries = build_entries("req-1", RECEIVED, RequestQueued(), StartIntended(), SessionFound(session="ses-1"))
    resumed = [*entries, *build_entries("req-1", StartIntended(resumes="ses-1"), StartIntended(resumes="ses-1"))]
    assert replay_house(resumed).requests["req-1"].starts == 2
    later = build_entries("req-1", StartIntended(resumes="ses-1"), at=LASTING_SECONDS)
    assert replay_house([*resumed, *later]).requests["req-1"].starts == 1


def test_an_event_that_cannot_follow_is_an_error() -> None:
    with pytest.raises(InternalError, match="SessionFound cannot follow in req-1, which is received"):
        replay_house(build_entries("req-1", RECEIVED, SessionFound(session="s")))
    with pytest.raises(InternalError, match="RequestQueued cannot follow in req-1, which is unknown"):
        replay_house(build_entries("req-1", RequestQueued()))


def test_what_concerns_no_request_changes_no_request() -> None:
    house = replay_house(build_entries("req-1", RECEIVED))
    before = House(dict(house.requests))
    house.apply(replace(build_entries(HOUSE, SourceWarned(source="feeds", text="down"))[0], n=2))
    assert house == before
