"""Money and patience as people read them: in the log on the screen, in status, at the gate."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import RenderableType

from blueflame.cli.console import make_console
from blueflame.cli.gates.view import build_gate_context, render_gate
from blueflame.cli.live.feed import format_event
from blueflame.cli.live.frame import SessionFrame
from blueflame.cli.render.status import render_status
from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.event import (
    AttemptEnded,
    AttemptNearsBudget,
    BudgetWarned,
    Event,
    GateOpened,
    JournalEntry,
    RuntimeParked,
    RuntimeResumed,
    TaskMoved,
)
from blueflame.model.limits import Capacity
from blueflame.model.spend import Spend, Unit
from blueflame.model.task import Cause
from blueflame.session.gates.questions import open_day_budget_gate, open_escalation_gate, open_rate_limit_gate
from blueflame.text.format import format_duration
from blueflame.views.items import build_item_json, build_item_view, find_item
from blueflame.views.session import build_session_json, build_status_view
from support.recorded_session import BEGAN, ID, Story

PARKED = RuntimeParked(
    runtime="claude", kind="rate_limit", reason="429: Slow\x1b[2J down.", until=BEGAN + 720, agents=3
)


def describe_parked(event: Event) -> str:
    line = format_event(JournalEntry(1, BEGAN, event))
    assert line is not None
    return line.plain


def drawn(view: RenderableType) -> str:
    out = StringIO()
    make_console(file=out, width=120).print(view)
    return out.getvalue()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            AttemptNearsBudget(attempt=f"{ID}.task-001.worker.2", used=1_200_000, limit=1_500_000),
            "task-001 #2 has used 80% of its $1.50",
        ),
        (
            AttemptNearsBudget(
                attempt=f"{ID}.task-001.worker.2", used=900, limit=1000, unit=Unit.TOKENS, budget="session"
            ),
            "task-001 #2 has used 90% of the 1,000 tokens that the session's budget leaves it",
        ),
        (BudgetWarned(used=8, limit=10, budget="day", day="2026-11-16"), "80% of the day's budget is used"),
        (RuntimeResumed(runtime="claude", reason="the rest is over"), "claude is available again: the rest is over"),
    ],
)
def test_what_happens_to_money_and_models_is_reported(event: Event, words: str) -> None:
    assert words in describe_parked(event)


def test_a_runtime_that_is_parked_is_reported_once_for_all_in_one_harmless_line() -> None:
    line = describe_parked(PARKED)
    assert "claude: rate-limited by the provider; 3 agents wait until 20" in line
    assert "429: Slow" in line
    assert "\x1b" not in line


def test_times_that_no_calendar_knows_are_left_out() -> None:
    assert "until" not in describe_parked(RuntimeParked(runtime="claude", kind="outage", reason="", until=1e300))


def test_status_says_what_the_session_waits_for() -> None:
    story = Story().planned().tell(PARKED)
    view = drawn(render_status(build_status_view(story.session, now=BEGAN), now=BEGAN))
    assert "Waits for:" in view
    assert "3 agents wait until" in view
    assert f"(in {format_duration(720)})" in view
    (parked,) = build_session_json(story.session, now=BEGAN)["parked"]
    assert (parked["runtime"], parked["kind"], parked["until"]) == ("claude", "rate_limit", BEGAN + 720)


def shown(gate: GateOpened, story: Story) -> str:
    return drawn(build_gate_context(story.session, gate.gate).view)


def test_the_gates_show_what_is_asked_about() -> None:
    story = Story().planned()
    view = shown(open_rate_limit_gate(story.session, PARKED), story)
    assert "Model unavailable" in view
    assert "429: Slow" in view
    assert "\x1b[2J" not in view
    day = open_day_budget_gate(
        story.session, Capacity(agents=1, day="2026-11-16", day_spend=Spend(micro_usd=3_000_000))
    )
    assert "Daily budget:" in shown(day, story)


def test_a_task_that_waits_before_its_retry_is_counted_down_on_every_screen() -> None:
    story = Story().working()
    (name,) = (each.id for each in story.session.live.values() if each.subject == "task-001")
    failed = AttemptOutcome(ending=Ending.FAILED, exit_code=7)
    until = story.now + 100
    story.tell(AttemptEnded(attempt=name, ended=failed), TaskMoved(task="task-001", cause=Cause.FAIL))
    story.tell(TaskMoved(task="task-001", cause=Cause.RETRY, until=until))
    words = f"is tried again in {format_duration(25)}: retry 1 of 2"
    now = until - 25
    assert words in drawn(render_status(build_status_view(story.session, now=now), now=now))
    assert f"‖ task-001 {words}" in drawn(SessionFrame(story.session, now))
    item = find_item(story.session, "task-001")
    assert words in drawn(render_gate(build_item_view(story.session, item, now=now)))
    assert build_item_json(story.session, item, now=now)["task"]["retry_at"] == until


def test_the_gate_about_a_task_without_a_retry_left_says_who_tried_it() -> None:
    story = Story().working()
    record = story.session.tasks["task-001"]
    view = shown(open_escalation_gate(story.session, record, "exit code 7: no\x1b[2J idea"), story)
    assert "No retry left" in view
    assert "worker" in view
    assert "exit code 7" in view
    assert "\x1b[2J" not in view
