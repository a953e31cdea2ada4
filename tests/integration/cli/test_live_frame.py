from __future__ import annotations

import time
from dataclasses import replace

import pytest
from rich.cells import cell_len

from blueflame.cli.console import render_text
from blueflame.cli.live.feed import format_events
from blueflame.cli.live.frame import SessionFrame, draw_bar
from blueflame.cli.render.activity import draw_activity, draw_activity_line, draw_budget_bar
from blueflame.model.activity import Activity, AgentState, AgentStatus
from blueflame.model.attempt import Attempt, AttemptRecord, Ending
from blueflame.model.seat import Allocation
from blueflame.model.spend import Budget, Ceiling, Spend, Unit
from blueflame.session.environment import report_problem
from blueflame.views.activity import build_activity_json, describe_activity, format_tokens, format_usage
from blueflame.views.session import list_hindrances
from support.json_page import table_keys
from support.recorded_session import ID, Story

WORKING = AgentStatus(state=AgentState.WORKING)
ATTEMPT = Attempt(id=f"{ID}.t.worker.1", session=ID, subject="t", role="worker", n=1, agent_id="worker-0a1b2c3d")


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def activities(story: Story, **fields: object) -> dict[str, Activity]:
    live = story.session.live
    return {name: replace(Activity(attempt=live[name], status=WORKING), **fields) for name in live}  # type: ignore[arg-type]


def busy(story: Story) -> dict[str, Activity]:
    """The first edits a file, the second says what it will do."""
    first, second = activities(story)
    spend = Spend(micro_usd=420_000, input_tokens=12_000, output_tokens=450)
    found = activities(story, spend=spend, calls=17)
    found[first] = replace(
        found[first], tool="Edit", target="internal/auth/jwt.go", last_words="Now the key rotation.", refused=2
    )
    found[second] = replace(
        found[second],
        last_words="I read the routes first.",
        spoke_last=True,
        spend=Spend(micro_usd=1_400_000),
    )
    return found


def shown(story: Story, found: dict[str, Activity], *, width: int, height: int = 24, recent: int = 4) -> str:
    result = format_events(story.recorded)[-recent:]
    return render_text(SessionFrame(story.session, story.now + 65, found, result, height), width=width)


def test_the_frame_shows_cost_tasks_agents_and_what_happened() -> None:
    story = Story().working()
    assert shown(story, busy(story), width=80) == (
        """\
Blue Flame                           cycle 1 · work · 1:11 · ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────
tasks  ────────────────────  0 of 3 landed  · 1 pending  ▸ 2 claimed
cost   ╍╍╍─────────────────  ~$1.82 / $10.00 USD limit

▸ task-001 #1  worker-992ee207  1:06  Edit internal/auth/jwt.go    $0.42  ━────
▸ task-003 #1  worker-6207378b  1:05  I read the routes first.     $1.40  ━━━━─!

14:30:25  · cycle 1 begins on aaaaaaaaaa
14:30:26  · wave: work
14:30:27  · task-001 #1 started
14:30:28  · task-003 #1 started
"""
    )


def test_the_frame_shows_what_is_held_as_status_does() -> None:
    story = Story().working()
    story.tell(report_problem(story.session, "landing of cs-001", "Unable to create 'index.lock'", story.now))
    (words,) = list_hindrances(story.session, story.now + 65)
    assert words == "landing of cs-001: a lock of git is held: Unable to create 'index.lock'"
    assert f"‖ {words}" in shown(story, {}, width=80)


def test_a_wide_terminal_shows_more() -> None:
    story = Story().working()
    lines = shown(story, busy(story), width=120).splitlines()
    assert lines[5] == (
        "▸ task-001 #1  worker-992ee207  1:06  Edit internal/auth/jwt.go · Now the key…  2 refused  12.4k tok"
        "  $0.42  ━━────────"
    )
    assert lines[6].endswith("I read the routes first.                                 0 tok  $1.40  ━━━━━━━━━─!")


def test_a_very_wide_terminal_shows_seats() -> None:
    story = Story().working()
    live, allocation = story.session.live, Allocation(seat="worker-1", domain="auth", reason="it is free")
    name = next(iter(live))
    record = story.session.attempts[name]
    seated = replace(record, attempt=replace(record.attempt, allocation=allocation))
    story.session.attempts[name], live[name] = seated, seated.attempt
    assert "worker-992ee207  worker-1  1:06  Edit" in shown(story, busy(story), width=140)
    assert "worker-1 " not in shown(story, busy(story), width=120)


def test_a_narrow_terminal_keeps_what_counts() -> None:
    story = Story().working()
    at_60, at_46, at_30 = (shown(story, busy(story), width=width) for width in (60, 46, 30))
    assert "▸ task-001 #1  1:06  Edit …/auth/jwt.go        $0.42  ━────" in at_60
    assert "▸ task-001 #1  1:06  Edit internal/auth/jwt.go" in at_46
    assert "▸ task-001 #1  Edit …/jwt.go" in at_30


def test_what_has_ended_and_what_runs_are_separate_in_the_cost() -> None:
    story = Story().working().ends("task-003")
    text = shown(story, activities(story, spend=Spend(micro_usd=1_580_000)), width=80)
    assert "cost   ╍╍╍╍────────────────  ~$2.00 / $10.00 USD limit" in text.replace("━", "╍")
    assert "cost   ────────────────────  $0.42 / $10.00 USD limit" in shown(story, activities(story), width=80).replace(
        "━", "─"
    )


def test_the_frame_shows_verified_work_and_open_questions() -> None:
    text = shown(Story().reviewing(), {}, width=80)
    assert "tasks  ╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍  0 of 3 landed  ● 3 validated" in text
    assert "cost   ━━━─────────────────  $1.68 / $10.00 USD limit" in text
    assert "? changeset-cs-1-auth  [auth] Add JWT" in text


def crowd(n: int) -> tuple[Story, dict[str, Activity]]:
    story = Story().working()
    attempt = next(iter(story.session.live.values()))
    record = story.session.attempts[attempt.id]
    for each in range(n - 2):
        name = f"{ID}.task-{each:03d}.worker.9"
        story.session.live[name] = replace(attempt, id=name, n=9)
        story.session.attempts[name] = replace(record, attempt=story.session.live[name])
    return story, activities(story, spend=Spend(micro_usd=1))


def test_eight_agents_a_parked_runtime_and_events_fit_on_24_lines() -> None:
    story, found = crowd(8)
    parked = AgentStatus(state=AgentState.PARKED, kind="rate_limit", until=story.now + 3600)
    found = {name: replace(each, status=parked) for name, each in found.items()}
    lines = shown(story, found, width=80, recent=9).splitlines()
    assert len(lines) <= 23
    assert lines[4] == "‖ scripted waits until 15:30: rate limit"
    assert sum("#9" in line for line in lines) == 6
    assert sum(line.startswith("14:30:2") for line in lines) == 7


def test_more_agents_than_fit_are_counted_and_events_give_way() -> None:
    story, found = crowd(30)
    lines = shown(story, found, width=60, height=20).splitlines()
    assert len(lines) == 19
    assert lines[-1] == "… 17 more"


@pytest.mark.parametrize("height", [1, 5, 8, 12, 24, 60])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_the_frame_is_never_larger_than_the_terminal(width: int, height: int) -> None:
    story, found = crowd(12)
    found = {name: replace(each, tool="Bash", target="слово " * 40, calls=3) for name, each in found.items()}
    lines = shown(story, found, width=width, height=height, recent=6).splitlines()
    assert max(map(cell_len, lines)) <= max(width, 28)
    assert len(lines) < max(height, 12)


def test_an_agent_that_waits_says_why() -> None:
    def words(stand: AgentStatus, **fields: object) -> str:
        activity = replace(Activity(attempt=ATTEMPT, status=stand), **fields)  # type: ignore[arg-type]
        return describe_activity(activity, now=1_770_388_222.0)

    parked = AgentStatus(state=AgentState.PARKED, kind="rate_limit", until=1_770_388_300.0)
    assert words(parked) == "waits until 14:31: rate limit"
    assert words(replace(parked, since=1_770_200_000.0)) == "waits until Fri 14:31: rate limit"
    assert words(AgentStatus(state=AgentState.PARKED, kind="network")) == "waits: no network"
    assert words(AgentStatus(state=AgentState.PARKED, reason="try\x1b[2J later")) == "waits: try␛[2J later"
    assert words(AgentStatus()) == "starting"
    assert words(AgentStatus(state=AgentState.SETUP)) == "setup commands"
    assert words(AgentStatus(state=AgentState.ENDING, reason="a person said so")) == "ending: a person said so"
    assert words(AgentStatus(state=AgentState.SILENT, since=1_770_388_100.0), tool="Read", target="a.py") == (
        "silent for 2:02; last: Read a.py"
    )
    assert words(WORKING) == "thinking"
    talks = replace(ATTEMPT, interactive=True)
    assert words(WORKING, attempt=talks, spoke_last=True, last_words="Which colour?") == (
        f"waits for the person at its terminal (blueflame attach {ATTEMPT.agent_id})"
    )
    assert words(WORKING, attempt=talks, tool="Read", target="a.py") == "Read a.py"
    asks = Activity(attempt=talks, status=WORKING, spoke_last=True, last_words="Which colour?")
    assert draw_activity(asks, now=0.0, width=40).plain.startswith("waits for the person at its terminal")


def test_of_a_path_the_end_is_kept_and_of_a_command_the_beginning() -> None:
    def cut(tool: str, target: str, width: int) -> str:
        return draw_activity(
            Activity(attempt=ATTEMPT, status=WORKING, tool=tool, target=target), now=0.0, width=width
        ).plain

    assert cut("Edit", "src/blueflame/cli/live.py", 40) == "Edit src/blueflame/cli/live.py"
    assert cut("Edit", "src/blueflame/cli/live.py", 20) == "Edit …/cli/live.py"
    assert cut("Edit", "src/blueflame/cli/live.py", 12) == "Edit src/bl…"
    assert cut("Bash", "pytest -q tests/integration/cli/test_live_view.py", 20) == "Bash pytest -q test…"
    assert cut("Bash", "pytest", 0) == ""


@pytest.mark.parametrize(
    ("micro_usd", "bar_", "style"),
    [(0, "───── ", "id"), (700_000, "━━━── ", "id"), (800_000, "━━━━─!", "warn"), (1_300_000, "━━━━━!", "bad")],
)
def test_a_budget_warns_and_then_is_used_up(micro_usd: int, bar_: str, style: str) -> None:
    attempt = replace(ATTEMPT, budget=Budget(Unit.USD, 1_000_000))
    text = draw_budget_bar(Activity(attempt=attempt, spend=Spend(micro_usd=micro_usd)), 5, warn_at=0.8)
    assert text.plain == bar_
    assert style in {str(span.style) for span in text.spans} | {str(text.style)}


def test_the_tightest_budget_counts() -> None:
    day = Ceiling("day", Budget(Unit.TOKENS, 100))
    attempt = replace(ATTEMPT, budget=Budget(Unit.USD, 1_000_000), ceilings=(day,))
    activity = Activity(attempt=attempt, spend=Spend(micro_usd=500_000, input_tokens=90))
    assert activity.tightest_budget == day.budget
    assert activity.used_share == 0.9
    assert Activity(attempt=ATTEMPT).tightest_budget is None
    assert draw_budget_bar(Activity(attempt=ATTEMPT), 5, warn_at=0.8).plain == ""


def test_figures_are_as_exact_as_is_useful() -> None:
    assert [format_tokens(n) for n in (0, 999, 1000, 12_449, 999_949, 999_950, 2_345_678)] == [
        "0", "999", "1.0k", "12.4k", "999.9k", "1.00M", "2.35M",
    ]  # fmt: skip
    assert format_usage(Spend(micro_usd=10_000, input_tokens=5), 1, 1) == "5 tokens, $0.01, 1 call, 1 refused"
    assert format_usage(Spend()) == ""


def test_an_activity_as_a_line_and_as_json() -> None:
    day = Ceiling("day", Budget(Unit.TOKENS, 9))
    activity = Activity(
        attempt=replace(ATTEMPT, budget=Budget(Unit.USD, 1_500_000), ceilings=(day,)),
        status=replace(WORKING, since=3.0), tool="Edit", target="a\x1b.py", calls=2, spend=Spend(input_tokens=7),
    )  # fmt: skip
    assert draw_activity_line(activity, now=0.0).plain == (
        "00:00:00  ▸ worker-0a1b2c3d  t #1  Edit a␛.py  (7 tokens, 2 calls)"
    )
    result = build_activity_json(activity, AttemptRecord(attempt=activity.attempt, intended_at=1.0), now=11.0)
    assert set(result) == table_keys("watch")
    assert result["budgets"] == [
        {"name": "attempt", "unit": "usd", "limit": 1.5}, {"name": "day", "unit": "tokens", "limit": 9},
    ]  # fmt: skip
    assert (result["state"], result["tool"], result["seconds"], result["ending"]) == ("working", "Edit", 10.0, None)


def test_a_bar_never_overflows() -> None:
    assert draw_bar([(7, "━", "good")], 3).plain == "━" * 20
    assert draw_bar([(1, "━", "good")], 0).plain == "─" * 20
    assert draw_bar([(1, "━", "good"), (1, "╍", "id")], 4).plain == "━" * 5 + "╍" * 5 + "─" * 10


def test_colour_only_repeats_what_the_marks_say() -> None:
    story = Story().working().ends("task-003", Ending.FAILED)
    assert "$1.50  ━━━━━!" in shown(story, activities(story, spend=Spend(micro_usd=1_500_000)), width=80)
