"""A session in a few lines."""

from __future__ import annotations

from blueflame.model.event import StopRequested
from blueflame.views.brief import NEWEST, PAGE, build_brief
from support.recorded_session import Story


def test_it_says_where_a_session_stands_and_what_waits() -> None:
    story = Story().planned()
    brief = build_brief(story.session, story.recorded, since=None, running=True)
    assert (brief["state"], brief["running"], "tasks" in brief) == ("1 open gate", True, False)
    assert [gate.id for gate in brief["gates"]] == ["plan"]
    assert "Approve the plan" not in str(brief["events"]), "it is shown once"
    assert brief["next"] == "a person decides"


def test_pages_from_the_cursor_are_the_whole_story() -> None:
    story = Story().working()
    for n in range(PAGE * 2):
        story.tell(StopRequested(reason=f"stop {n}", now=False))
    whole = build_brief(story.session, story.recorded, since=None, running=False)
    assert len(whole["events"]) == NEWEST
    assert "resume" in whole["next"]
    seen: list[str] = []
    cursor, more = 0, True
    while more:
        new = [each for each in story.recorded if each.seq > cursor]
        page = build_brief(story.session, new, since=cursor, running=True)
        assert len(page["events"]) <= PAGE
        seen, cursor, more = [*seen, *page["events"]], page["cursor"], "more" in page
    assert len(seen) > PAGE
    assert cursor == story.recorded[-1].seq
    assert tuple(seen[-NEWEST:]) == whole["events"]
