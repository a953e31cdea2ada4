"""Whether a lesson helps is said only where the numbers allow it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings

from blueflame.knowledge.effect import Effect, Finding, Trial, list_trials, measure_effect
from blueflame.model.attempt import Duty, Ending
from blueflame.model.event import LessonsGiven, TaskMoved
from blueflame.model.memory import GivenLesson, LeftOut
from blueflame.model.task import Cause, TaskState
from blueflame.session.replay import replay
from blueflame.testing.simulation import Simulation
from support.memory_records import failure
from support.random_sessions import worlds
from support.recorded_session import ID, Story

LESSON = failure(1)  # about src/ledger.py


def trials(n: int, passed: int, *, given: bool = False, **more: object) -> list[Trial]:
    keys = (LESSON.key,) if given else ()
    some = Trial(attempt="", session="ses-1", duty=Duty.MAKE, files=("src/ledger.py",), lessons=keys)
    named = replace(some, **more)  # type: ignore[arg-type]  # tests name them
    return [replace(named, attempt=f"{given}-{more}-{each}", passed=each < passed) for each in range(n)]


@pytest.mark.parametrize(
    ("tried", "passed", "others", "others_passed", "finding"),
    [
        (9, 0, 100, 100, Finding.TOO_FEW),
        (100, 100, 9, 0, Finding.TOO_FEW),
        (10, 10, 10, 10, Finding.SAME),
        (10, 0, 10, 0, Finding.SAME),
        (12, 9, 40, 28, Finding.SAME),
        (20, 18, 20, 8, Finding.HELPS),
        (20, 8, 20, 18, Finding.HARMS),
        (10, 0, 10, 10, Finding.HARMS),
    ],
)
def test_a_difference_counts_when_chance_seldom_makes_it(
    tried: int, passed: int, others: int, others_passed: int, finding: Finding
) -> None:
    effect = Effect(given=tried, tried=tried, passed=passed, others=others, others_passed=others_passed)
    assert effect.finding is finding
    assert effect.harms is (finding is Finding.HARMS)


def test_a_lesson_is_compared_with_attempts_on_the_same_files_where_there_are_enough() -> None:
    elsewhere = trials(50, 50, files=("docs/x.md",))
    judges = trials(50, 50, duty=Duty.JUDGE)
    second = trials(50, 50, is_first=False)
    given_ = trials(12, 3, given=True)
    effect = measure_effect(LESSON, [*given_, *trials(20, 16), *elsewhere, *judges, *second])
    assert effect == Effect(given=12, tried=12, passed=3, others=20, others_passed=16)
    assert effect.harms
    fewer = measure_effect(LESSON, [*given_, *trials(4, 4), *elsewhere, *judges])
    assert (fewer.others, fewer.others_passed) == (54, 54)
    assert effect.describe() == ("given 12 times; 3 of 12 first attempts passed at once, 16 of 20 without it: harms")


def test_what_was_left_out_to_compare_counts_as_not_given() -> None:
    story = Story().working()
    name = f"{ID}.task-001.worker.1"
    held = GivenLesson(key="held", left_out=LeftOut.CONTROL)
    story.tell(LessonsGiven(attempt="", lessons=(GivenLesson(key="all"),), nonce="0" * 32))
    story.tell(LessonsGiven(attempt=name, lessons=(GivenLesson(key="own"), held)))
    story.tell(LessonsGiven(attempt=name, lessons=(GivenLesson(key="another choice"),)))
    story.ends("task-001").tell(TaskMoved(task="task-001", cause=Cause.VALIDATE))
    (trial,) = [each for each in list_trials(story.session) if each.attempt == name]
    assert trial.lessons == ("all", "own")
    assert (trial.is_first, trial.passed, trial.duty) == (True, True, Duty.MAKE)
    assert trial.files == ("pkg/middleware/", "internal/auth/")


def test_an_attempt_with_nothing_to_do_says_nothing_about_what_it_was_given() -> None:
    story = Story().working().ends("task-001", Ending.NOTHING_TO_DO)
    assert not any(each.attempt == f"{ID}.task-001.worker.1" for each in list_trials(story.session))


@settings(max_examples=int(os.environ.get("BLUEFLAME_EXAMPLES", "15")))
@given(worlds(most=5))
def test_every_attempt_is_counted_at_most_once_whatever_happens(world: Simulation) -> None:
    for _ in range(5_000):
        if not world.step():
            break
    session = replay(world.journal)
    found = list(list_trials(session))
    assert len({each.attempt for each in found}) == len(found)
    for name in session.list_in_state(TaskState.MERGED):
        came_back = {entry.agent_id for entry in session.tasks[name].history}
        last = session.attempts[session.last_work[name]].attempt
        assert all(each.passed or last.agent_id in came_back for each in found if each.attempt == last.id)
