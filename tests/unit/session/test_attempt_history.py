from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.attempt import Ending
from blueflame.model.limits import Limits
from blueflame.model.spend import Spend
from blueflame.model.task import HistoryEntry, HistoryResult, TaskRecord
from blueflame.model.verdict import Check
from blueflame.session.consequences.verdicts import build_failed_verdict
from blueflame.session.retries import MAX_NOTE_CHARS, build_history_entry, limit_history, truncate_text
from support.session_examples import Outcomes, reported, task


def entry(n: int, notes: str = "", reason: str = "") -> HistoryEntry:
    return HistoryEntry(
        attempt=n, agent_id="worker-1", at=0.0, result=HistoryResult.FAILED, notes=notes, rejection_reason=reason
    )


def test_the_newest_entries_are_kept() -> None:
    kept = limit_history(tuple(entry(n) for n in range(9)), 3)
    assert [each.attempt for each in kept] == [6, 7, 8]


def test_no_history_can_be_asked_for() -> None:
    assert limit_history((entry(1),), 0) == ()


@given(st.text(), st.integers(40, 200))
def test_what_is_cut_fits_and_begins_and_ends_as_it_did(text: str, most: int) -> None:
    shorter, kept = truncate_text(text, most), (most - 40) // 4
    assert shorter == text if len(text) <= most else len(shorter) <= most
    assert shorter[:kept] == text[:kept]
    assert text.endswith(shorter[len(shorter) - kept :])


def test_cutting_says_how_much_is_gone() -> None:
    text = "я" * (MAX_NOTE_CHARS + 100)
    assert "\n… [140 characters cut] …\n" in truncate_text(text)


def test_the_output_of_every_red_check_keeps_its_last_line() -> None:
    red = [
        Check(name=f"check-{n}", exit_code=1, seconds=1, output="line\n" * 2000 + f"== {n} failed ==\n") for n in (1, 2)
    ]
    notes = build_failed_verdict(red).notes.splitlines()
    assert notes[0] == "`check-1` exited with 1:"
    assert {"== 1 failed ==", "== 2 failed =="} <= set(notes)
    assert limit_history((entry(1, build_failed_verdict(red).notes),), 5)[0].notes.splitlines() == notes


def test_notes_and_reasons_are_both_cut() -> None:
    (only,) = limit_history((entry(1, "n" * 10_000, "r" * 10_000),), 5)
    assert len(only.notes) < MAX_NOTE_CHARS + 30
    assert len(only.rejection_reason) < MAX_NOTE_CHARS + 30


def test_a_task_without_an_agent_can_be_remembered() -> None:
    record, session = TaskRecord(task=task(9), attempts=2), reported(Outcomes(task(1))).session
    assert build_history_entry(session, record, HistoryResult.STALE, 7.0, notes="why") == HistoryEntry(
        attempt=2, agent_id="", at=7.0, result=HistoryResult.STALE, notes="why"
    )


@pytest.mark.verification(47)
def test_history_stays_bounded_however_often_a_task_comes_back() -> None:
    """T47: two failures and a rejection in each of twenty cycles."""
    endings = {f"task-001.worker.{n}": Ending.FAILED for n in range(100) if n % 3}
    world = reported(
        Outcomes(task(1), endings=endings, answers={"changeset": "reject"}),
        limits=Limits(max_cycles=20, max_history=4, max_retries=100),
    )
    (record,) = world.session.tasks.values()
    assert record.attempts == 60
    assert len(record.history) == 4
    assert [each.result.value for each in record.history] == ["rejected", "failed", "failed", "rejected"]
    assert [each.attempt for each in record.history] == [57, 58, 59, 60]


def test_history_has_the_cost_of_work_that_was_rejected() -> None:
    world = reported(
        Outcomes(
            task(1),
            spends={"task-001.worker.1": Spend(micro_usd=250_000, input_tokens=70)},
            answers={"changeset": "reject"},
        ),
        limits=Limits(max_cycles=1),
    )
    (entry,) = world.session.tasks["task-001"].history
    assert (entry.result, entry.cost_usd, entry.tokens_used) == (HistoryResult.REJECTED, 0.25, 70)
