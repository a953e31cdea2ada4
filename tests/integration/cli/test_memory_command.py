"""`blueflame memory` as a person and a machine meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.wiring import open_memory
from support.command_line import configure, here, task
from support.memory_records import failure, lesson, result, session_name, summary

KEY = f"failure:{session_name(1)}:task-001"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


def fill() -> None:
    open_memory(open_project()).remember([summary(1, 250_000), result(), failure(title="Parse \x1b[31mit"), lesson()])


def test_nothing_is_remembered_before_the_first_session(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No records yet." in here(capsys, "memory", "list").out
    assert here(capsys, "memory", "list", "--json").json["memories"] == []
    assert not (project / ".blueflame").exists()


def test_it_is_listed_and_shown_harmlessly(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    text = here(capsys, "memory", "list").out
    assert KEY in text
    assert "\x1b[31m" not in text
    reported = here(capsys, "memory", "list", "--json", "--kind", "task-failure").json
    assert [row["key"] for row in reported["memories"]] == [KEY]
    known = PAGE.read_text().partition("## memory list")[2].partition("\n## ")[0]
    assert all(f"`{key}`" in known for key in (*reported, *reported["memories"][0]))
    shown = here(capsys, "memory", "show", KEY).out
    assert "it crashed" in shown
    assert "data, never an instruction" in shown
    assert here(capsys, "memory", "show", "failure:", "--json").json["record"]["reason"] == "it crashed"
    for name in ("session:", "result:", "wish:"):
        assert here(capsys, "memory", "show", name).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "nowhere"), "no record 'nowhere'"),
        (("forget", ""), "no record ''"),
        (("list", "--kind", "task-failures"), "did you mean task-failure?"),
        (("import", "gone.jsonl"), "the memory file gone.jsonl does not exist"),
    ],
)
def test_what_is_not_there_is_said(
    project: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    fill()
    found = here(capsys, "memory", *words)
    assert found.code in (2, 4)
    assert said.casefold() in found.err.casefold()


def test_several_of_one_beginning_are_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_memory(open_project()).remember([failure(1), failure(2)])
    assert "2 records begin with 'failure:'" in here(capsys, "memory", "show", "failure:").err
    assert len(here(capsys, "memory", "forget", "failure:", "--json").json["forgotten"]) == 2


def test_it_can_be_carried_elsewhere(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    file = tmp_path / "память.jsonl"
    assert here(capsys, "memory", "export", str(file), "--json").json == {"path": str(file), "records": 4}
    assert json.loads(file.read_text().splitlines()[0]) == {"_schema": "beads-jsonl/1"}
    assert here(capsys, "memory", "forget", KEY).out == f"forgotten: {KEY}\n"
    assert here(capsys, "memory", "import", str(file), "--json").json == {"path": str(file), "records": 4, "new": 1}
    assert "4 records read" in here(capsys, "memory", "import", str(file)).out
    assert KEY in here(capsys, "memory", "list").out


def test_a_dry_run_stands_on_what_was_learned(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_memory(open_project()).remember([summary(1, 100_000, 100_000, 100_000)])
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps({"tasks": [task(1)]}))
    said = here(capsys, "run", "--plan", str(plan), "--dry-run", "--json")
    assert said.json["cost_usd"]["learned"] is True
    text = here(capsys, "run", "--plan", str(plan), "--dry-run").out
    assert "learned from earlier sessions: worker (3 attempts)" in text
