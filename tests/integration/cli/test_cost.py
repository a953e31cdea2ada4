from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from blueflame.cli.console import render_text
from blueflame.cli.render.cost import render_cost
from blueflame.journal.journal import Journal
from blueflame.model.activity import Health, HealthReport
from blueflame.model.attempt import Ending
from blueflame.model.event import BudgetRaised
from blueflame.model.ids import build_attempt_id
from blueflame.model.spend import Spend
from blueflame.orchestrator.costs import list_costs
from blueflame.session.accounts import CostEntry, forecast_cost
from blueflame.session.estimate import CostRange, EstimatedRoleCost, estimate_cost
from blueflame.text.format import format_dollars
from blueflame.views.cost import CostView, build_cost_json
from support.command_line import configure, here
from support.json_page import keys_in, section, table_keys
from support.recorded_session import ID, TASKS, Story

LINE = {
    "model": "claude-opus-5-5",
    "status": 200,
    "input": 1000,
    "output": 50,
    "cache_read": 7,
    "cache_write": 0,
    "cache_write_1h": 0,
    "web_search": 0,
    "micro_usd": 5002,
    "priced_as": "*claude-opus-5-5*",
    "complete": True,
    "refused": "",
}


def meter(attempts: Path, task: str, *lines: dict[str, Any]) -> None:
    folder = attempts / build_attempt_id(ID, task, "worker", 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "usage.jsonl").write_text("".join(json.dumps(LINE | line) + "\n" for line in lines))


def story() -> Story:
    """One agent has ended, one is at work."""
    return Story().working().ends("task-001", Ending.PASSED)


def keep(journal: Path, reported: Story) -> None:
    with Journal.open(journal) as book:
        for each in reported.recorded:
            book.append(ID, each.seq - 1, [each.event], each.at)


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    (repo / ".blueflame").mkdir()
    keep(repo / ".blueflame" / "journal.db", story())
    meter(
        repo / ".blueflame" / "attempts",
        "task-003",
        {},
        {"model": "strange", "priced_as": "fallback", "complete": False},
    )
    return repo


def test_agents_at_work_count_with_what_their_meter_says_now(tmp_path: Path) -> None:
    reported = story()
    meter(tmp_path, "task-003", {}, {"model": "claude-haiku-5-5", "micro_usd": 10})
    done, live = list_costs(reported.session, tmp_path, {}, now=reported.now)
    assert (done.live, done.spend.micro_usd, done.metered) == (False, 420_000, False)
    assert (live.live, live.spend.micro_usd, live.metered) == (True, 5012, True)
    assert {model: spend.micro_usd for model, spend in live.by_model.items()} == {
        "claude-opus-5-5": 5002,
        "claude-haiku-5-5": 10,
    }


def test_an_agent_without_a_meter_counts_with_what_it_says_itself(tmp_path: Path) -> None:
    reported = story()
    said = HealthReport(state=Health.WORKING, spend=Spend(micro_usd=77))
    _done, live = list_costs(
        reported.session, tmp_path, {build_attempt_id(ID, "task-003", "worker", 1): said}, now=reported.now
    )
    assert (live.spend.micro_usd, live.metered) == (77, False)


def test_a_meter_splits_what_an_ended_attempt_cost_by_model(tmp_path: Path) -> None:
    reported = story()
    half = {"input": 6000, "output": 225, "cache_read": 0}
    meter(tmp_path, "task-001", half | {"micro_usd": 300}, half | {"model": "claude-haiku-5-5", "micro_usd": 100})
    done, _live = list_costs(reported.session, tmp_path, {}, now=reported.now)
    assert {model: spend.micro_usd for model, spend in done.by_model.items()} == {
        "claude-opus-5-5": 315_000,
        "claude-haiku-5-5": 105_000,
    }


def test_a_person_sees_cost_by_everything_and_what_was_foreseen(tmp_path: Path) -> None:
    reported = story()
    meter(tmp_path, "task-003", {})
    entries = list_costs(reported.session, tmp_path, {}, now=reported.now)
    text = render_text(render_cost(CostView(entries=entries, session=ID, foreseen=forecast_cost(reported.recorded))))
    assert "Cost:      $0.43, 13,507 tokens" in text
    shown = forecast_cost(reported.recorded)
    assert shown is not None
    assert f"Estimate:  {shown.text}" in text
    assert "by reference figures; nothing is learned" in text
    assert "Running:   1 agent, $0.0050 so far" in text
    assert [line for line in text.splitlines() if line.startswith("By")] == [
        "By role",
        "By task",
        "By model",
        "By agent",
    ]
    assert re.search(r"worker +2 +13\.0k +500 +7 +~\$0\.43 +\$0\.60 - \$\d\.\d\d", text)


def test_the_tables_of_a_large_session_fit_a_terminal_of_80_columns() -> None:
    spend = Spend(
        micro_usd=123_456_789,
        input_tokens=123_456_789,
        output_tokens=12_345_678,
        cache_read_tokens=987_654_321,
        cache_write_tokens=98_765_432,
    )
    entry = CostEntry(
        attempt="a",
        session=ID,
        agent="validator-05fe81fd",
        role="validator",
        subject="task-123",
        n=2,
        day="2026-11-16",
        spend=spend,
        by_model={"claude-opus-5-5-20261116": spend},
        ending="",
    )
    roles = (EstimatedRoleCost(role="validator", low=1_000_000, high=999_000_000),)
    foreseen = CostRange(low=1_000_000, high=999_000_000, roles=roles)
    view = CostView(entries=(entry,), session=ID, foreseen=foreseen)
    lines = render_text(render_cost(view)).splitlines()
    assert max(map(len, lines)) <= 80
    row = r"validator-05fe81fd +task-123 #2 +123\.46M +12\.35M +987\.65M +98\.77M +~\$123\.46$"
    assert any(re.search(row, line) for line in lines)


def test_the_forecast_is_the_one_that_was_shown_with_the_plan() -> None:
    story = Story()
    assert forecast_cost(story.recorded) is None
    story.planned()
    shown = estimate_cost(TASKS, story.session.limits, story.session.workflow, is_planned=True)
    assert forecast_cost(story.recorded) == shown
    story = Story().working().ends("task-001", Ending.PASSED)
    story.tell(BudgetRaised(limit=99_000_000, by="ann"))
    assert forecast_cost(story.recorded) == shown


def test_one_table_when_it_is_asked_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for by in ("agent", "role", "task", "model", "session", "day"):
        said = here(capsys, "cost", "--by", by)
        assert said.code == 0
        assert [line for line in said.out.splitlines() if line.startswith("By")] == [f"By {by}"]
    assert "Running:   1 agent" in here(capsys, "cost", ID[:8]).out


def test_what_is_not_certain_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = here(capsys, "cost", "--json").json["notes"]
    assert [note.split(":")[0] for note in notes] == [
        "no price known for strange",
        "1 call ended before the model reported its usage",
    ]


def test_machines_get_what_the_page_says(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported = here(capsys, "cost", "--json").json
    models = {"claude-opus-5-5", "strange", "not known"}
    roles = {"planner", "worker", "validator", "merger"}
    assert set(keys_in(reported)) <= section("cost") | models | roles
    assert set(reported) >= table_keys("cost")
    assert set(reported["by"]) == {"role", "task", "model", "agent"}
    assert reported["cost_usd"] == sum(each["cost_usd"] for each in reported["attempts"]) == 0.430004
    assert [each["live"] for each in reported["attempts"]] == [False, True]
    everything = here(capsys, "cost", "--by", "day", "--json").json
    assert set(everything["by"]) == {"day"}


def test_a_session_without_agents_has_cost_nothing() -> None:
    reported = Story()
    assert "No agent has been started." in render_text(render_cost(CostView(entries=(), session=ID)))
    assert (
        build_cost_json(CostView(entries=(), session=ID, foreseen=forecast_cost(reported.recorded)))["foreseen"] is None
    )


@pytest.mark.parametrize(
    ("micro_usd", "shown"), [(0, "$0.00"), (9_999, "$0.0100"), (5, "$0.000005"), (10_000, "$0.01")]
)
def test_less_than_a_cent_is_shown_with_more_figures(micro_usd: int, shown: str) -> None:
    assert format_dollars(micro_usd) == shown
