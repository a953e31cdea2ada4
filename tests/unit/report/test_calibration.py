"""The confidence of reviewers beside what became of the work they passed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.attempt import Attempt
from blueflame.model.changeset import Changeset
from blueflame.model.event import (
    AttemptIntended,
    ChangesetJudged,
    ChangesetsFormed,
    ChangesetTrimmed,
    Event,
    JournalEntry,
    Landed,
    LandingUndone,
    VerdictGiven,
)
from blueflame.model.verdict import Verdict, VerdictStatus
from blueflame.report.calibration import BOUNDS, ENOUGH, KINDS, Fate, build_calibration, list_judgements

TASK, OTHER = "task-001", "task-002"
FIRST, SECOND = "a" * 40, "b" * 40


def intend(agent: str, role: str = "validator", model: str = "sonnet") -> Event:
    return AttemptIntended(
        attempt=Attempt(
            id=agent, session="s", subject=TASK, role=role, n=1, agent_id=agent, cycle=1, branch="", model=model
        )
    )


def judge(
    confidence: float | None, *, by: str = "v-1", passes: bool = True, sha: str = FIRST, task: str = TASK
) -> Event:
    status = VerdictStatus.PASS if passes else VerdictStatus.FAIL
    return VerdictGiven(task=task, sha=sha, verdict=Verdict(status=status, notes="", confidence=confidence, by=by))


FORMED = ChangesetsFormed(changesets=(Changeset(id="cs-001", cycle=1, group="main", title="", tasks=(TASK, OTHER)),))
LANDS = Landed(changeset="cs-001", before=FIRST, after=SECOND)
UNDONE = LandingUndone(changeset="cs-001", before=SECOND, after=FIRST)
REJECTED = ChangesetJudged(changeset="cs-001", choice="reject")
APPROVED = ChangesetJudged(changeset="cs-001", choice="approve")
RED = ChangesetTrimmed(changeset="cs-001", tasks=(TASK,), waiting=(), reason="red")


def record(*events: Event) -> Sequence[JournalEntry]:
    return [JournalEntry(n, float(n), event) for n, event in enumerate((intend("v-1"), *events), start=1)]


@pytest.mark.parametrize(
    ("events", "fates"),
    [
        ((judge(0.9), FORMED, APPROVED, LANDS), [Fate.LANDED]),
        ((judge(0.9), FORMED, REJECTED), [Fate.REJECTED]),
        ((judge(0.9), FORMED, RED), [Fate.RED]),
        ((judge(0.9), FORMED, LANDS, UNDONE), [Fate.UNDONE]),
        ((judge(0.9), judge(0.8, passes=False)), [Fate.REFUSED]),
        ((judge(0.9), judge(0.8, passes=False, sha=SECOND), FORMED, LANDS), [Fate.LANDED]),
        ((judge(0.9), FORMED, REJECTED, judge(0.7, sha=SECOND), LANDS), [Fate.REJECTED, Fate.LANDED]),
        ((judge(0.9), judge(0.8, sha=SECOND), FORMED, LANDS), [Fate.LANDED, Fate.LANDED]),
        ((judge(0.9), FORMED, APPROVED), []),
        ((judge(None), FORMED, LANDS), []),
        ((judge(0.9, passes=False), FORMED, LANDS), []),
        ((judge(1.0, by="a person"), FORMED, LANDS), []),
    ],
)
def test_a_pass_is_right_when_its_work_lands_and_stays(events: tuple[Event, ...], fates: list[Fate]) -> None:
    assert [each.fate for each in list_judgements(record(*events))] == fates


def test_only_the_culprit_of_a_red_changeset_was_judged_wrongly() -> None:
    events = record(judge(0.9), judge(0.8, task=OTHER), FORMED, RED, LANDS)
    assert [each.fate for each in list_judgements(events)] == [Fate.RED, Fate.LANDED]


def test_there_is_a_row_for_each_role_and_model_over_all_sessions() -> None:
    one = record(judge(0.9), FORMED, LANDS)
    two = record(intend("q-1", "qa", "opus"), judge(0.5, by="q-1"), judge(0.7), FORMED, REJECTED)
    first, second = build_calibration([one, two])
    assert (first.role, first.model, first.count, first.right) == ("validator", "sonnet", 2, 0.5)
    assert first.confidence == pytest.approx(0.8)
    assert first.gap == pytest.approx(0.3)
    assert first.brier == pytest.approx((0.1**2 + 0.7**2) / 2)
    assert first.fates == {Fate.LANDED: 1, Fate.REJECTED: 1}
    assert (second.role, second.model, second.fates) == ("qa", "opus", {Fate.REJECTED: 1})
    assert not first.is_enough
    assert build_calibration([one] * ENOUGH)[0].is_enough


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_every_judgement_is_in_one_step_of_the_curve(said: list[tuple[float, bool]]) -> None:
    sessions = [record(judge(confidence), FORMED, LANDS if lands else REJECTED) for confidence, lands in said]
    (row,) = build_calibration(sessions)
    assert sum(step.count for step in row.curve) == row.count == len(said)
    # a mean of floats may be rounded over the edge of its step
    assert all(step.low - 1e-9 <= step.confidence <= step.high + 1e-9 for step in row.curve)
    assert (BOUNDS[0], BOUNDS[-1]) == (0.0, 1.0)


def test_only_the_kinds_that_are_read_matter() -> None:
    events = record(judge(0.9), FORMED, LANDS)
    assert {type(each.event) for each in events} <= set(KINDS)
