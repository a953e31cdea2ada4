from __future__ import annotations

import time
from io import StringIO
from typing import get_args

import pytest
from rich.console import Console

from blueflame.cli.console import THEME, make_console
from blueflame.cli.live.feed import format_event
from blueflame.cli.live.follow import ActivityLines
from blueflame.cli.live.view import (
    MIN_FRAME_SECONDS,
    QUIET_SECONDS,
    EventLines,
    LiveFrame,
    NoView,
    choose_view,
)
from blueflame.model.activity import Activity, AgentState, AgentStatus
from blueflame.model.attempt import Ending
from blueflame.model.changeset import Changeset
from blueflame.model.event import ChangesetsFormed, Event, HookRan, JournalEntry, TaskMoved, WaveStarted
from blueflame.model.task import Cause
from blueflame.text.event_lines import SHORT_FORMS
from blueflame.text.format import format_attempt
from support.recorded_session import BEGAN, ID, TASKS, Story


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


def test_the_frame_is_redrawn_at_most_eight_times_a_second() -> None:
    console, out = screen()
    timer = Timer()
    story = Story().working()
    view = LiveFrame(console, timer=timer)
    view.see(story.session, story.recorded)
    after_one = out.getvalue()
    assert "task-001 #1" in after_one
    for _ in range(50):
        view.tick(story.now)
        view.see(story.session, story.recorded[-1:])
    assert out.getvalue() == after_one
    timer.at += MIN_FRAME_SECONDS
    view.tick(story.now + 1)
    assert len(out.getvalue()) > len(after_one)
    view.close()


def test_a_paused_frame_is_off_the_screen_and_draws_nothing() -> None:
    console, out = screen()
    timer = Timer()
    story = Story().working()
    view = LiveFrame(console, timer=timer)
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
    view = LiveFrame(console)
    view.tick(1.0)
    view.close()
    assert "Blue Flame" not in out.getvalue()


def test_a_pipe_gets_a_line_for_each_thing_worth_one() -> None:
    out = StringIO()
    story = Story().working().ends("task-003", Ending.TIMEOUT)
    EventLines(make_console(file=out, width=80)).see(story.session, story.recorded)
    assert out.getvalue().splitlines() == [
        "14:30:22  · session ses-20260206-143022 on main",
        "14:30:23  · a plan of 3 tasks",
        "14:30:24  ✓ plan of 3 tasks approved",
        "14:30:25  · cycle 1 begins on aaaaaaaaaa",
        "14:30:26  · wave: work",
        "14:30:27  · task-001 #1 started",
        "14:30:28  · task-003 #1 started",
        "14:31:30  ✗ task-003 #1 timeout after 1 min 02 s, 2 commits, $0.42",
        "14:31:30  → task-003 is retried",
    ]


def test_a_task_that_a_persons_lock_keeps_back_is_named_in_the_frame_and_once_in_a_pipe() -> None:
    story, out = Story().approved(), StringIO()
    locked: dict[str, tuple[str, ...]] = {}
    words = "‖ task-001 waits for the lock internal held by ada"
    lines = ActivityLines(make_console(file=out), dict, story.session, locked.copy)
    console, screen_out = screen()
    timer = Timer()
    frame = LiveFrame(console, timer=timer, read_locks=locked.copy)
    frame.see(story.session, story.recorded)
    lines.tick(story.now)
    assert words not in screen_out.getvalue() + out.getvalue()

    locked["ada"] = ("internal",)
    timer.at += MIN_FRAME_SECONDS
    frame.tick(story.now)
    lines.tick(story.now)
    lines.tick(story.now)
    frame.close()
    assert words in screen_out.getvalue()
    assert [line.partition("  ")[2] for line in out.getvalue().splitlines()] == [words]


def test_quiet_is_quiet() -> None:
    out = StringIO()
    story = Story().working()
    view = NoView(make_console(file=out))
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
    on_a_terminal = choose_view(console)
    assert isinstance(on_a_terminal, LiveFrame)
    on_a_terminal.close()
    assert type(choose_view(pipe)) is EventLines
    assert isinstance(choose_view(console, quiet=True), NoView)
    monkeypatch.setenv("TERM", "dumb")
    assert type(choose_view(screen()[0])) is EventLines


def test_every_event_has_a_sentence() -> None:
    result = {type(each.event) for each in Story().reviewing().recorded}
    assert set(SHORT_FORMS) <= set(get_args(Event))
    assert result <= set(get_args(Event))
    hook = JournalEntry(1, BEGAN, HookRan(hook="post_plan", key="k\x1b[2J", exit_code=1))
    line = format_event(hook)
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
    assert format_attempt(attempt) == name


def test_a_frame_with_nothing_new_is_not_drawn_again() -> None:
    console, out = screen()
    timer = Timer()
    story = Story().working()
    view = LiveFrame(console, timer=timer)
    view.see(story.session, story.recorded)
    drawn = len(out.getvalue())
    for _ in range(5):
        timer.at += 1
        view.tick(story.now + 0.1)
    assert len(out.getvalue()) == drawn
    timer.at += 1
    view.tick(story.now + 1.1)
    assert len(out.getvalue()) > drawn
    view.close()


def test_a_log_that_was_quiet_for_long_says_what_agents_do() -> None:
    out, timer, story = StringIO(), Timer(), Story().working()
    found = {
        name: Activity(attempt=attempt, status=AgentStatus(state=AgentState.WORKING), tool="Edit", target="a.py")
        for name, attempt in story.session.live.items()
    }
    log = EventLines(make_console(file=out, width=80), lambda: found, timer=timer)
    log.see(story.session, story.recorded)
    lines = len(out.getvalue().splitlines())
    timer.at += QUIET_SECONDS - 1
    log.tick(story.now)
    assert len(out.getvalue().splitlines()) == lines
    for _ in range(3):
        timer.at += QUIET_SECONDS / 3
        log.tick(story.now)
    assert out.getvalue().splitlines()[lines:] == [
        "14:30:28  ▸ worker-992ee207  task-001 #1  Edit a.py",
        "14:30:28  ▸ worker-6207378b  task-003 #1  Edit a.py",
    ]


def test_a_build_that_takes_long_is_shown_in_the_log_and_in_the_frame() -> None:
    story = Story().working().ends("task-001").ends("task-003").begins("task-002").ends("task-002")
    story.tell(WaveStarted(cycle=1, stage="validate"))
    story.tell(*(TaskMoved(task=task.id, cause=Cause.VALIDATE) for task in TASKS), WaveStarted(cycle=1, stage="merge"))
    story.tell(ChangesetsFormed(changesets=(Changeset(id="cs-1", cycle=1, group="a", title="A", tasks=("task-001",)),)))
    out, timer = StringIO(), Timer()
    log = EventLines(make_console(file=out, width=80), timer=timer)
    log.see(story.session, story.recorded)
    timer.at += QUIET_SECONDS
    log.tick(story.now)
    assert out.getvalue().splitlines()[-1].endswith("  ▸ build of cs-1")
    console, shown = screen()
    LiveFrame(console).see(story.session, story.recorded)
    assert "▸ build of cs-1" in shown.getvalue()
