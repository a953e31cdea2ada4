"""Whether the planner of a new session can talk with the person, and what is printed when it cannot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blueflame.cli.foreground import RunOptions, can_planner_talk
from blueflame.documents.decisions import load_decisions
from blueflame.orchestrator.context import Cassette
from blueflame.orchestrator.project import open_project
from blueflame.session.from_settings import build_session_limits
from support.command_line import configure, write

CLAUDE = {"roles": {"planner": {"runtime": "claude"}}}


@pytest.fixture
def attended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blueflame.cli.foreground.is_interactive", lambda: True)


def asked(repo: Path, options: RunOptions, *, planned: bool = False, workflow: str = "waves", **config: Any) -> bool:  # noqa: ANN401 - of any kind
    return can_planner_talk(
        open_project(configure(repo, {**CLAUDE, **config})), options, workflow=workflow, planned=planned
    )


@pytest.mark.usefixtures("attended")
def test_at_a_terminal_it_talks(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(repo, RunOptions())
    assert capsys.readouterr().err == ""


@pytest.mark.verification(55)
@pytest.mark.usefixtures("attended")
@pytest.mark.parametrize(
    "more",
    [{"planned": True}, {"workflow": "direct"}, {"planning": {"interactive": False}}, {"roles": {}}],
    ids=json.dumps,
)
def test_where_no_planner_could_talk_it_does_not_and_nothing_is_said(
    repo: Path, more: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    script = write(repo / "play.yaml", {}) if "roles" in more else None
    assert not asked(repo, RunOptions(script=script), **more)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("attended")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RunOptions(as_json=True), "--json is given"),
        (RunOptions(quiet=True), "--quiet is given"),
        (RunOptions(cassette=Cassette(record=Path("x"))), "a cassette"),
    ],
)
def test_a_conversation_that_cannot_be_held_is_explained(
    repo: Path, options: RunOptions, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not asked(repo, options, planning={"interactive": True})
    assert words in capsys.readouterr().err
    assert not asked(repo, options)  # not by default
    assert capsys.readouterr().err == ""


@pytest.mark.verification(54)
@pytest.mark.usefixtures("attended")
def test_a_decisions_file_means_one_shot_with_a_warning(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decisions = load_decisions(write(repo / "решения.yaml", {"plan": ["approve"]}))
    assert not asked(repo, RunOptions(decisions=decisions))
    assert capsys.readouterr().err == (
        "blueflame: the planner is not interactive (planning.interactive): a decisions file is given\n"
    )


def test_without_a_terminal_it_does_not_talk(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not asked(repo, RunOptions(), planning={"interactive": True})
    assert "no terminal" in capsys.readouterr().err


def test_the_limits_of_a_session_say_whether_its_planner_talks(repo: Path) -> None:
    settings = open_project(configure(repo, CLAUDE)).settings
    assert build_session_limits(settings, interactive=True).interactive_planning
    assert not build_session_limits(settings).interactive_planning
