"""Laws of what is kept of a session, whatever the plan, the world and the people do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from blueflame.memory.codec import decode_record
from blueflame.memory.records import build_records
from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.memory import SessionSummary, TaskFailure, TaskResult
from blueflame.model.spend import Spend
from blueflame.model.task import TaskState
from blueflame.session.replay import apply_event, open_session, replay
from blueflame.testing.simulation import Simulation
from support.random_sessions import worlds
from support.recorded_session import Story

MOST_STEPS = 5_000
laws = settings(max_examples=15)


def run(world: Simulation) -> Simulation:
    for _ in range(MOST_STEPS):
        if not world.step():
            return world
    raise AssertionError("the session never ends")


@laws
@given(worlds(most=5))
def test_saving_after_every_event_leaves_what_saving_once_would(world: Simulation) -> None:
    journal = run(world).journal
    session = open_session(journal[0])
    kept = {record.key: record for record in build_records(session)}
    for recorded in journal[1:]:
        apply_event(session, recorded)
        kept |= {record.key: record for record in build_records(session)}
    last = {record.key: record for record in build_records(replay(journal))}
    assert last.keys() <= kept.keys()
    assert {key: kept[key] for key in last} == last
    assert sum(isinstance(record, SessionSummary) for record in kept.values()) == 1


@laws
@given(worlds(most=5))
def test_every_task_that_landed_and_every_one_that_failed_is_kept_once(world: Simulation) -> None:
    session = replay(run(world).journal)
    records = build_records(session)
    assert len({record.key for record in records}) == len(records)
    landed = {record.origin.task for record in records if isinstance(record, TaskResult)}
    failed = {record.origin.task for record in records if isinstance(record, TaskFailure)}
    assert landed == set(session.list_in_state(TaskState.MERGED))
    assert set(session.list_in_state(TaskState.FAILED)) <= failed


def test_what_agents_of_a_model_cost_is_learned_and_what_a_script_reports_is_not() -> None:
    session = Story().working().session
    (name,) = (each for each in session.attempts if each.endswith("task-001.worker.1"))
    spent = AttemptOutcome(ending=Ending.PASSED, spend=Spend(micro_usd=500_000))
    for runtime, learned in (("scripted", {}), ("claude", {"worker": (500_000,)})):
        record = session.attempts[name]
        session.attempts[name] = replace(record, attempt=replace(record.attempt, runtime=runtime), ended=spent)
        (summary,) = (each for each in build_records(session) if isinstance(each, SessionSummary))
        assert {each.role: each.attempts for each in summary.spent} == learned


def test_a_summary_from_before_triage_is_read_with_no_tier_and_no_times() -> None:
    old = (
        '{"schema_version":1,"type":"session-summary","key":"session:s","origin":{"session":"s"},"request":"r",'
        '"tasks":1,"merged":1,"spent":[{"role":"worker","attempts":[7]}]}'
    )
    found = decode_record(old, "memory.db")
    assert isinstance(found, SessionSummary)
    assert (found.tier, found.chosen_by, found.spent[0].seconds) == (None, None, ())
