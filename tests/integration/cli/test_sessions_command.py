from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.journal.journal import Journal
from blueflame.model.event import SessionEnded, TaskMoved
from blueflame.model.task import Cause
from blueflame.testing.simulation import Simulation, build_opening
from support.command_line import configure, here
from support.json_page import keys_in, section
from support.recorded_session import Story
from support.session_examples import FLOW, Outcomes, task

OLDER, NEWER = "ses-20260206-100000", "ses-20260207-100000"


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An older session that has ended with a dropped task, and a newer one that waits at the plan."""
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


def record_sessions(repo: Path) -> None:
    (repo / ".blueflame").mkdir()
    ended = Story().reviewing().lands("cs-1-auth").tell(TaskMoved(task="task-003", cause=Cause.DROP))
    ended.tell(SessionEnded(outcome="completed"))
    with Journal.open(repo / ".blueflame" / "journal.db") as journal:
        for name, story, later in ((OLDER, ended, 0.0), (NEWER, Story().planned(), 86_400.0)):
            for each in story.recorded:
                journal.append(name, each.seq - 1, [each.event], each.at + later)


def test_sessions_are_listed_newest_first(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_sessions(project)
    found = here(capsys, "sessions", "--json").json
    assert set(keys_in(found)) <= section("sessions")
    assert [(each["outcome"], each["gates"], each["landed"], each["tasks"]) for each in found["sessions"]] == [
        (None, 1, 0, 0),
        ("completed", 0, 2, 3),
    ]
    shown = here(capsys, "sessions").out
    assert "1 open gate, not running" in shown
    assert "2 of 3" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_only_the_newest_are_shown_when_asked_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_sessions(project)
    shown = here(capsys, "sessions", "--last", "1").out
    assert "… and 1 older session: --last 0 lists all" in shown
    assert len(here(capsys, "sessions", "--last", "0", "--json").json["sessions"]) == 2


def test_the_team_is_listed_with_its_work(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = task(1, locks=("web/a.py",)), task(2, 1, locks=("api/a.py",))
    world = Simulation(Outcomes(*tasks), [build_opening(workflow=FLOW)]).run()
    (project / ".blueflame").mkdir()
    with Journal.open(project / ".blueflame" / "journal.db") as journal:
        for each in world.journal:
            journal.append(world.session.id, each.seq - 1, [each.event], each.at)
    found = here(capsys, "team", "--json").json
    assert set(keys_in(found)) <= section("team")
    assert [(each["seat"], each["domain"], each["tasks"], each["landed"]) for each in found["seats"]] == [
        ("validator-1", "web", 1, 0),
        ("validator-2", "api", 1, 0),
        ("worker-1", "web", 1, 1),
        ("worker-2", "api", 1, 1),
    ]
    shown = here(capsys, "team").out
    assert "worker-2" in shown and "first time" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("command", ["sessions", "team"])
def test_where_no_session_was_run_the_first_step_is_named(
    project: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    said = here(capsys, command)
    assert said.code == 2
    assert "blueflame run" in said.err
