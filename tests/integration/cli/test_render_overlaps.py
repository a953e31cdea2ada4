from __future__ import annotations

from blueflame.cli.console import render_text
from blueflame.cli.live.feed import format_event
from blueflame.cli.live.frame import SessionFrame
from blueflame.cli.render.status import render_status
from blueflame.model.event import OverlapSeen
from blueflame.views.session import build_session_json, build_status_view
from support.recorded_session import Story


def overlapping() -> Story:
    story = Story().working()
    first, second = list(story.session.live)[:2]
    tasks = (story.session.live[first].subject, story.session.live[second].subject)
    return story.tell(OverlapSeen(tasks=tasks, attempts=(first, second), paths=("src/a b.py",), kind="lines"))


def test_an_overlap_is_reported_and_stays_on_the_screen_while_both_run() -> None:
    story = overlapping()
    one, other = (attempt.subject for attempt in list(story.session.live.values())[:2])
    words = f"{one} and {other} both change the same lines of src/a b.py"
    result = format_event(story.recorded[-1])
    assert result is not None
    assert words in result.plain
    assert f"! {words}" in render_text(SessionFrame(story.session, story.now), width=100)
    assert words in render_text(
        render_status(build_status_view(story.session, now=story.now), now=story.now), width=100
    )
    assert build_session_json(story.session, now=story.now)["overlaps"] == [
        {"tasks": [one, other], "paths": ["src/a b.py"], "kind": "lines"}
    ]
