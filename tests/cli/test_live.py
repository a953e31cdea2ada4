from __future__ import annotations

import json
import time
from io import StringIO
from typing import get_args

import pytest
from rich.console import Console
from story import BEGAN, ID, Story

from blueflame.cli.live import EVERY, Frame, JsonLines, LineLog, Silence, bar, frame, live_view
from blueflame.cli.paint import THEME, as_text, make_console
from blueflame.cli.telling import TELL, named, tell, tell_all
from blueflame.model.attempt import Ending
from blueflame.model.event import Event, HookRan, Recorded
from blueflame.tools.store.codec import decode


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def screen(height: int = 24) -> tuple[Console, StringIO]:
    out = StringIO()
    return Console(
        file=out, force_terminal=True, width=80, height=height, theme=THEME, color_system=None, highlight=False
    ), out


class Timer:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_the_frame_shows_cost_tasks_agents_and_what_happened() -> None:
    story = Story().working()
    words = {next(iter(story.session.live.values())).agent_id: "edit internal/auth/jwt.go: " + "and so on " * 10}
    view = frame(story.session, now=story.now + 65, words=words, recent=tell_all(story.recorded)[-4:])
    assert as_text(view, width=80) == (
        """\
Blue Flame                           cycle 1 · work · 1:11 · ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────
tasks  ────────────────────  0 of 3 landed  · 1 pending  ▸ 2 claimed
cost   ────────────────────  $0.00 / $10.00 USD limit

worker-992ee207  task-001 #1  1:06  edit internal/auth/jwt.go: and so on and so…
worker-6207378b  task-003 #1  1:05

14:30:25  · cycle 1 begins on aaaaaaaaaa
14:30:26  · wave: work
14:30:27  · task-001 #1 started
14:30:28  · task-003 #1 started
"""
    )


def test_the_frame_shows_verified_work_and_open_questions() -> None:
    story = Story().reviewing()
    text = as_text(frame(story.session, now=story.now, words={}), width=80)
    assert "tasks  ╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍  0 of 3 landed  ● 3 validated" in text
    assert "cost   ━━━─────────────────  $1.68 / $10.00 USD limit" in text
    assert "? changeset-cs-1-auth  [auth] Add JWT" in text


def test_more_agents_than_fit_are_counted() -> None:
    story = Story().working()
    text = as_text(frame(story.session, now=story.now, words={}, rows=1), width=80)
    assert "… 1 more" in text


def test_no_line_of_the_frame_is_wider_than_the_terminal() -> None:
    story = Story().working().ends("task-001", Ending.FAILED)
    recent = tell_all(story.recorded)
    for width in (40, 60, 80, 120):
        lines = as_text(frame(story.session, now=story.now, words={}, recent=recent), width=width).splitlines()
        assert max(map(len, lines)) <= width


def test_the_frame_is_redrawn_at_most_eight_times_a_second() -> None:
    console, out = screen()
    timer = Timer()
    story = Story().working()
    view = Frame(console, timer=timer)
    view.see(story.session, story.recorded)
    after_one = out.getvalue()
    assert "task-001 #1" in after_one
    for _ in range(50):
        view.tick(story.now)
        view.see(story.session, story.recorded[-1:])
    assert out.getvalue() == after_one
    timer.at += EVERY
    view.tick(story.now + 1)
    assert len(out.getvalue()) > len(after_one)
    view.close()


def test_a_paused_frame_is_off_the_screen_and_draws_nothing() -> None:
    console, out = screen()
    timer = Timer()
    story = Story().working()
    view = Frame(console, timer=timer)
    view.see(story.session, story.recorded)
    view.pause()
    view.pause()
    size = len(out.getvalue())
    timer.at += 10
    view.tick(story.now + 10)
    assert len(out.getvalue()) == size
    view.resume()
    view.tick(story.now + 10)
    assert out.getvalue()[size:].count("Blue Flame") == 1
    view.close()
    assert out.getvalue().count("\x1b[?25h") == 2  # the cursor is back each time


def test_a_frame_without_a_session_draws_nothing() -> None:
    console, out = screen()
    view = Frame(console)
    view.tick(1.0)
    view.close()
    assert "Blue Flame" not in out.getvalue()


def test_a_pipe_gets_a_line_for_each_thing_worth_one() -> None:
    out = StringIO()
    story = Story().working().ends("task-003", Ending.TIMEOUT)
    LineLog(make_console(file=out, width=80)).see(story.session, story.recorded)
    assert out.getvalue().splitlines() == [
        "14:30:22  · session ses-20260206-143022 on main",
        "14:30:23  · a plan of 3 tasks",
        "14:30:24  ✓ the plan of 3 tasks is approved",
        "14:30:25  · cycle 1 begins on aaaaaaaaaa",
        "14:30:26  · wave: work",
        "14:30:27  · task-001 #1 started",
        "14:30:28  · task-003 #1 started",
        "14:31:30  ✗ task-003 #1 timeout after 1 min 02 s, 2 commits, $0.42",
        "14:31:30  → task-003 is tried again",
    ]


def test_machines_get_every_event_as_one_json_object() -> None:
    out = StringIO()
    story = Story().reviewing()
    JsonLines(make_console(file=out, width=20)).see(story.session, story.recorded)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["seq"] for line in lines] == [each.seq for each in story.recorded]
    assert lines[0]["session"] == ID
    assert [decode(line["kind"], json.dumps(line["event"])) for line in lines] == [e.event for e in story.recorded]


def test_quiet_is_quiet() -> None:
    out = StringIO()
    story = Story().working()
    view = Silence(make_console(file=out))
    view.see(story.session, story.recorded)
    view.tick(1.0)
    view.pause()
    view.resume()
    view.close()
    assert out.getvalue() == ""


def test_the_view_suits_who_is_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    console, _ = screen()
    pipe = make_console(file=StringIO())
    on_a_terminal = live_view(console)
    assert isinstance(on_a_terminal, Frame)
    on_a_terminal.close()
    assert type(live_view(pipe)) is LineLog
    assert isinstance(live_view(console, as_json=True), JsonLines)
    assert isinstance(live_view(console, quiet=True), Silence)
    monkeypatch.setenv("TERM", "dumb")
    assert type(live_view(screen()[0])) is LineLog


def test_every_event_can_be_told() -> None:
    told = {type(each.event) for each in Story().reviewing().recorded}
    assert set(TELL) <= set(get_args(Event))
    assert told <= set(get_args(Event))
    hook = Recorded(1, BEGAN, HookRan(hook="post_plan", key="k\x1b[2J", exit_code=1))
    line = tell(hook)
    assert line is not None
    assert "post_plan" in line.plain
    assert "\x1b" not in line.plain


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        (f"{ID}.task-001.worker.2", "task-001 #2"),
        (f"{ID}.task-001.validator.1", "validator of task-001 #1"),
        (f"{ID}.plan.planner.1", "planner #1"),
        ("odd", "odd"),
    ],
)
def test_attempts_are_named_for_people(attempt: str, name: str) -> None:
    assert named(attempt) == name


def test_a_bar_never_overflows() -> None:
    assert bar([(7, "━", "good")], 3).plain == "━" * 20
    assert bar([(1, "━", "good")], 0).plain == "─" * 20
    assert bar([(1, "━", "good"), (1, "╍", "id")], 4).plain == "━" * 5 + "╍" * 5 + "─" * 10
