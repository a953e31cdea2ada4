"""What a session says about its work when it has ended."""

from __future__ import annotations

import pytest

from blueflame.model.event import LandingUndone, SessionEnded, TaskMoved
from blueflame.model.task import Cause
from blueflame.session.landed_work import LandedWork, count_landed_work
from blueflame.text.outcomes import describe_session_outcome
from support.recorded_session import Story


def test_dropped_and_undone_work_has_not_landed() -> None:
    story = Story().reviewing().lands("cs-1-auth")
    assert count_landed_work(story.session) == LandedWork(tasks=3, landed=2)
    story.tell(TaskMoved(task="task-003", cause=Cause.DROP, reason="not needed"), SessionEnded(outcome="completed"))
    assert count_landed_work(story.session) == LandedWork(tasks=3, landed=2, dropped=1)
    story.tell(LandingUndone(changeset="cs-1-auth", before="b", after="c", by="ann"))
    work = count_landed_work(story.session)
    assert work == LandedWork(tasks=3, landed=0, undone=2, dropped=1)
    assert not work.is_whole


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (LandedWork(tasks=3, landed=3), "completed: everything has landed"),
        (LandedWork(tasks=3, landed=2, dropped=1), "completed: 2 of 3 landed, 1 dropped"),
        (LandedWork(tasks=3, landed=0, undone=2, dropped=1), "completed: 0 of 3 landed, 2 undone, 1 dropped"),
        (LandedWork(tasks=2, landed=0, proposed=2), "completed: 0 of 2 landed, 2 proposed in pull requests"),
    ],
)
def test_a_completed_session_says_what_landed(work: LandedWork, words: str) -> None:
    assert describe_session_outcome("completed", work) == words


def test_a_session_without_tasks_has_not_landed_anything() -> None:
    assert not LandedWork(tasks=0, landed=0).is_whole
