from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.journal.codec import EVENTS, decode_event, encode_event
from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.changeset import Build, FileChange
from blueflame.model.errors import JournalError
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    BudgetRaised,
    ChangesetBuilt,
    CycleEnded,
    Event,
    GateAnswered,
    OrchestratorStarted,
    PlanApproved,
    SessionOpened,
    WaveStarted,
)
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.spend import Spend
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow
from blueflame.session.budget import compute_reservation
from support.event_strategies import KINDS, build_events


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=12)
@given(data=st.data())
def test_every_event_is_decoded_as_it_was_encoded(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(build_events(kind))
    name, body = encode_event(event)
    back = decode_event(name, body)
    assert type(back) is kind
    assert repr(back) == repr(event)  # repr tells tuples from lists and compares nan with itself


def test_every_event_has_its_name() -> None:
    assert set(EVENTS.values()) == set(KINDS)
    assert len(EVENTS) == len(KINDS)


def test_names_that_are_not_unicode_survive() -> None:
    file = FileChange(path="na\udcefve \ud800.txt", added=1, deleted=0)
    event = ChangesetBuilt(changeset="cs-1", build=Build(base="a", commit="b", files=(file,)))
    kind, body = encode_event(event)
    assert decode_event(kind, body) == event
    assert body.isascii()


def test_infinite_limits_survive() -> None:
    limits = Limits(role_timeouts={"worker": float("inf")})
    opened = SessionOpened(
        session="s", request="r", project="p", base_branch="main", base_sha="x", workflow=Workflow(), limits=limits
    )
    assert decode_event(*encode_event(opened)) == opened


def test_a_field_that_is_missing_takes_its_default() -> None:
    back = decode_event("AttemptEnded", '{"attempt": "a", "ended": {"ending": "passed"}}')
    assert back == AttemptEnded(attempt="a", ended=AttemptOutcome(ending=Ending.PASSED))


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("CometSighted", "{}", "CometSighted"),
        ("CycleEnded", '{"cycle": 1, "mood": "fine"}', "mood is an unknown field"),
        ("TaskEdited", '{"task": {"id": "task-1", "title": "t", "description": "d", "colour": 1}}', "task.colour"),
        ("CycleEnded", "{}", "cycle"),
        ("CycleEnded", '{"cycle": "many"}', "cycle"),
        ("AttemptEnded", '{"attempt": "a", "ended": {"ending": "exploded"}}', "ended.ending"),
        ("CycleEnded", '{"cycle": ', "CycleEnded"),
        ("CycleEnded", "[" * 100_000, "CycleEnded"),
        ("CycleEnded", "null", "CycleEnded"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(kind: str, body: str, says: str) -> None:
    with pytest.raises(JournalError, match=says) as caught:
        decode_event(kind, body)
    assert kind in str(caught.value)
    assert "newer version" in str(caught.value)


def test_what_json_cannot_hold_is_refused_before_it_is_written() -> None:
    with pytest.raises(JournalError, match="GateAnswered cannot be written to the journal"):
        encode_event(GateAnswered(gate="g", answer=Answer(choice="edit", payload={"tasks": {1, 2}})))


def test_a_plan_of_ten_thousand_tasks_is_decoded() -> None:
    tasks = tuple(
        Task(id=f"task-{n}", title=f"задача {n}", description="d" * 200, file_locks=("a/", "b c/"))
        for n in range(10_000)
    )
    assert decode_event(*encode_event(PlanApproved(tasks=tasks))) == PlanApproved(tasks=tasks)


def test_any_mapping_can_be_written() -> None:
    frozen = MappingProxyType({"choices": MappingProxyType({"а": (1, 2)})})
    answer = Answer(choice="edit", payload=frozen)
    assert decode_event(*encode_event(GateAnswered(gate="g", answer=answer))) == GateAnswered(
        gate="g", answer=Answer(choice="edit", payload={"choices": {"а": [1, 2]}})
    )


def test_bodies_are_compact_json() -> None:
    wave = WaveStarted(cycle=1, stage="work", position=0)
    assert encode_event(wave) == ("WaveStarted", '{"cycle":1,"stage":"work","position":0}')
    assert json.loads(encode_event(CycleEnded(cycle=3))[1]) == {"cycle": 3}


def test_an_attempt_of_a_journal_from_before_paths_inside_has_none() -> None:
    body = '{"attempt":"a","base":"b","worktree":"/repo/.trees/worker-1","warden_pid":7}'
    started = AttemptStarted(attempt="a", base="b", worktree="/repo/.trees/worker-1", warden_pid=7)
    assert decode_event("AttemptStarted", body) == started
    assert started.inside is None


def test_a_start_of_a_journal_from_before_clients_names_none() -> None:
    assert decode_event("OrchestratorStarted", '{"pid":7,"host":"h"}') == OrchestratorStarted(
        pid=7, host="h", client=""
    )


def test_journals_from_before_ceilings_and_budgets_of_days_read_as_they_were_meant() -> None:
    attempt = '{"id":"a","session":"s","subject":"t","role":"worker","n":1,"agent_id":"w","budget":%s}'
    intended = decode_event("AttemptIntended", '{"attempt":%s}' % (attempt % '{"unit":"usd","limit":7}'))
    assert isinstance(intended, AttemptIntended)
    assert compute_reservation(intended.attempt) == Spend(micro_usd=7)
    raised = decode_event("BudgetRaised", '{"limit":5,"by":"you"}')
    assert isinstance(raised, BudgetRaised)
    assert raised.budget == "session"
