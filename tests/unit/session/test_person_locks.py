"""No task begins where a person holds a lock."""

from __future__ import annotations

from blueflame.model.event import AttemptIntended
from blueflame.model.limits import Capacity
from blueflame.session.decide import next_events
from support.recorded_session import Story

FREE = Capacity(agents=99)


def list_begun(locked: tuple[str, ...]) -> list[str]:
    """What begins, one after the other, of three tasks of which the second needs the first."""
    story, capacity = Story(), Capacity(agents=99, locked=locked)
    story.approved()
    begun = []
    while events := next_events(story.session, capacity):
        begun += [event.attempt.subject for event in events if isinstance(event, AttemptIntended)]
        story.tell(*events)
    return begun


def test_a_task_waits_where_a_person_holds_a_lock_and_others_begin() -> None:
    assert list_begun(()) == ["task-001", "task-003"]
    assert list_begun(("pkg",)) == ["task-003"]
    assert list_begun(("PKG/middleware/auth.go", "docs")) == []
    assert list_begun(("elsewhere",)) == ["task-001", "task-003"]


def test_it_begins_when_the_lock_is_released() -> None:
    story = Story()
    story.approved()
    assert not any(
        isinstance(event, AttemptIntended) for event in next_events(story.session, Capacity(agents=9, locked=(".",)))
    )
    assert any(isinstance(event, AttemptIntended) for event in next_events(story.session, FREE))
