from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from blueflame.model.event import EditRefused, TasksImported
from blueflame.model.gate import Gate, GateKind
from blueflame.session.state import Session
from support.repositories import copy_repository
from support.sessions import Stage, find_stage, task, writes

NEW = """\
  - id: task-003
    title: A third
    description: By hand.
    priority: 1
    file_locks: [src/3.txt]
"""


def tasks_file(stage: Stage) -> Path:
    return stage.root / ".blueflame" / "tasks.yaml"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paused")


@pytest.fixture
def stage(place: Path, configured_repository: Path) -> Stage:
    """A session at the end of a cycle in which the person rejected everything: played once, then copied back."""
    stage, saved = find_stage(place / "мой repo"), place / "saved"
    if saved.exists():
        shutil.rmtree(stage.root)
        copy_repository(saved, stage.root)
        return stage
    copy_repository(configured_repository, stage.root)
    stage.play(task(1), task(2, after=[1]), workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")})
    result = stage.run({"changeset": ["reject: not so"]}, until=lambda session: session.is_asking(GateKind.SESSION))
    assert not result.session.ended
    shutil.copytree(stage.root, saved, symlinks=True)
    return stage


def change(path: Path, old: str = "", new: str = "", more: str = "") -> None:
    text = path.read_text()
    assert old in text
    path.write_text((text.replace(old, new, 1) if old else text) + more)


def test_a_changed_tasks_file_is_taken_up_by_the_next_cycle(stage: Stage) -> None:
    change(tasks_file(stage), "Do number 1.", "Do number 1 better.", NEW)
    result = stage.resume({"session": ["continue"]})
    (imported,) = result.of(TasksImported)
    assert [new.id for new in imported.added] == ["task-003"]
    assert [edited.id for edited in imported.edited] == ["task-001"]
    assert result.states == {"task-001": "merged", "task-002": "merged", "task-003": "merged"}
    assert "Do number 1 better." in result.prompt("task-001", n=2)
    assert any("tasks.yaml.edited" in warning for warning in result.warnings)
    assert not tasks_file(stage).with_name("tasks.yaml.edited").exists()


def test_an_invalid_file_changes_nothing_and_is_read_again_when_it_is_fixed(stage: Stage) -> None:
    path = tasks_file(stage)
    change(path, more=NEW.replace("priority: 1", "priority: high"))
    aside = path.with_name("tasks.yaml.edited")

    def repair(gate: Gate, _session: Session) -> str:
        (problem,) = gate.evidence["problems"]
        found, line, _ = problem.split(":", 2)
        assert Path(found) == aside
        assert "high" in aside.read_text().splitlines()[int(line) - 1]
        change(aside, "priority: high", "priority: 2")
        return "read"

    result = stage.resume({"session": ["continue"], "tasks": [repair]})
    assert len(result.of(EditRefused)) == 1
    assert result.states["task-003"] == "merged"


def test_an_edit_that_breaks_the_plan_is_refused_with_the_line_of_its_task_and_can_be_left(stage: Stage) -> None:
    change(tasks_file(stage), more=NEW.replace("src/3.txt", "elsewhere/3.txt"))
    result = stage.resume({"session": ["continue"], "tasks": ["keep"]})
    (refused,) = result.of(EditRefused)
    assert ".yaml.edited:" in refused.problems[0]
    assert "task-003" in refused.problems[0]
    assert result.of(TasksImported) == []
    assert result.states == {"task-001": "merged", "task-002": "merged"}


def test_a_file_of_another_session_or_without_changes_changes_nothing(stage: Stage) -> None:
    path = tasks_file(stage)
    change(path, "session_id: ", "session_id: ses-20200101-000000 # ", NEW)
    result = stage.resume({"session": ["continue"]})
    assert result.of(TasksImported) == []
    assert result.of(EditRefused) == []
    assert result.states == {"task-001": "merged", "task-002": "merged"}
