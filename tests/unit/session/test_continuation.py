"""What a task that is tried again starts from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import AttemptOutcome, Continuation, Ending
from blueflame.model.event import AttemptEnded, AttemptIntended
from blueflame.model.limits import Limits
from blueflame.model.verdict import Violation
from blueflame.session.retries import find_continuation
from support.session_examples import Outcomes, events, reported, task

CONTINUE = Limits(retry_from="continue", max_retries=3)


def continued(outcomes: Outcomes, limits: Limits = CONTINUE) -> list[Continuation | None]:
    world = reported(outcomes, limits=limits)
    return [e.attempt.continues for e in events(world, AttemptIntended) if e.attempt.role == "worker"]


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.TIMEOUT, Ending.BUDGET, Ending.CRASHED, Ending.OUTAGE])
def test_a_retry_continues_from_the_commits_of_the_attempt_before(ending: Ending) -> None:
    first, second = continued(Outcomes(task(1), endings={"task-001.worker.1": ending}))
    assert first is None
    assert second is not None
    assert second.attempt.endswith("task-001.worker.1")
    assert (second.tip, second.unfinished) == ("task-001@1", None)


@pytest.mark.parametrize("ending", [Ending.POSTCHECK, Ending.UNWATCHED])
def test_after_a_broken_rule_nothing_of_the_checkout_is_used_again(ending: Ending) -> None:
    assert continued(Outcomes(task(1), endings={"task-001.worker.1": ending})) == [None, None]


def test_starting_over_is_a_setting() -> None:
    limits = replace(CONTINUE, retry_from="scratch")
    assert continued(Outcomes(task(1), endings={"task-001.worker.1": Ending.TIMEOUT}), limits) == [None, None]


@pytest.mark.parametrize(("answer", "continues"), [("requeue", True), ("scratch", False)])
def test_starting_over_is_an_answer(answer: str, continues: bool) -> None:
    found = continued(Outcomes(task(1), refused=["task-001.validator.1"], answers={"validation": answer}))
    assert [each is not None for each in found] == [False, continues]


def ended(**fields: object) -> Continuation | None:
    """What follows an attempt that continued another, and ended so."""
    world = reported(Outcomes(task(1), endings={"task-001.worker.1": Ending.FAILED}), limits=CONTINUE)
    session = world.session
    last = next(reversed([name for name in session.attempts if ".worker." in name]))
    record = session.attempts[last]
    given = AttemptOutcome(**{"ending": Ending.FAILED, "base": "b", **fields})  # type: ignore[arg-type] # any of its fields
    session.attempts[last] = replace(record, ended=given)
    return find_continuation(session, "task-001")


def test_what_was_not_committed_is_continued_too() -> None:
    found = ended(unfinished="w")
    assert found is not None
    assert (found.base, found.tip, found.unfinished) == ("b", "b", "w")


def test_an_attempt_that_left_nothing_passes_on_what_it_continued() -> None:
    found = ended(ending=Ending.LOST)
    assert found is not None
    assert found.attempt.endswith("task-001.worker.1")


def test_a_violation_ends_the_chain_whatever_the_ending() -> None:
    broken = (Violation(rule="path_not_allowed", path="x", detail=""),)
    assert ended(ending=Ending.TIMEOUT, tip="t", violations=broken) is None


def test_events_from_before_have_no_earlier_work() -> None:
    world = reported(Outcomes(task(1)))
    assert [e.ended.unfinished for e in events(world, AttemptEnded)] == [None] * len(events(world, AttemptEnded))
