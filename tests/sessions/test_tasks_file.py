from __future__ import annotations

from pathlib import Path

from blueflame.model.event import EditRefused, TasksImported
from blueflame.model.gate import Gate, GateKind
from blueflame.session.state import Session
from support.sessions import Stage, task, writes

NEW = """\
  - id: task-003
    title: A third
    description: By hand.
    priority: 1
    file_locks: [src/3.txt]
"""


def tasks_file(stage: Stage) -> Path:
    return stage.root / ".blueflame" / "tasks.yaml"


def paused(stage: Stage) -> Path:
    """A session at the end of a cycle in which the person rejected everything; the file that they can change now."""
    stage.play(task(1), task(2, after=[1]), workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")})
    result = stage.run({"changeset": ["reject: not so"]}, until=lambda session: session.is_asking(GateKind.SESSION))
    assert not result.session.ended
    return tasks_file(stage)


def change(path: Path, old: str = "", new: str = "", more: str = "") -> None:
    text = path.read_text()
    assert old in text
    path.write_text((text.replace(old, new, 1) if old else text) + more)


def test_a_changed_tasks_file_is_taken_up_by_the_next_cycle(stage: Stage) -> None:
    change(paused(stage), "Do number 1.", "Do number 1 better.", NEW)
    result = stage.resume({"session": ["continue"]})
    (imported,) = result.of(TasksImported)
    assert [new.id for new in imported.added] == ["task-003"]
    assert [edited.id for edited in imported.edited] == ["task-001"]
    assert result.states == {"task-001": "merged", "task-002": "merged", "task-003": "merged"}
    assert "Do number 1 better." in result.prompt("task-001", n=2)
    assert any("tasks.yaml.edited" in warning for warning in result.warnings)
    assert not tasks_file(stage).with_name("tasks.yaml.edited").exists()


def test_a_task_that_was_left_out_is_dropped(stage: Stage) -> None:
    path = paused(stage)
    text = path.read_text()
    path.write_text(text[: text.rindex("  - id:")])
    result = stage.resume({"session": ["continue"]})
    assert result.of(TasksImported)[0].dropped == ("task-002",)
    assert result.states == {"task-001": "merged", "task-002": "dropped"}


def test_an_invalid_file_changes_nothing_and_is_read_again_when_it_is_fixed(stage: Stage) -> None:
    path = paused(stage)
    change(path, more=NEW.replace("priority: 1", "priority: high"))
    aside = path.with_name("tasks.yaml.edited")

    def mend(gate: Gate, _session: Session) -> str:
        (problem,) = gate.evidence["problems"]
        found, line, _ = problem.split(":", 2)
        assert Path(found) == aside
        assert "high" in aside.read_text().splitlines()[int(line) - 1]
        change(aside, "priority: high", "priority: 2")
        return "read"

    result = stage.resume({"session": ["continue"], "tasks": [mend]})
    assert len(result.of(EditRefused)) == 1
    assert result.states["task-003"] == "merged"


def test_an_edit_that_breaks_the_plan_is_refused_with_the_line_of_its_task_and_can_be_left(stage: Stage) -> None:
    change(paused(stage), more=NEW.replace("src/3.txt", "elsewhere/3.txt"))
    result = stage.resume({"session": ["continue"], "tasks": ["keep"]})
    (refused,) = result.of(EditRefused)
    assert ".yaml.edited:" in refused.problems[0]
    assert "task-003" in refused.problems[0]
    assert result.of(TasksImported) == []
    assert result.states == {"task-001": "merged", "task-002": "merged"}


def test_a_file_of_another_session_or_without_changes_changes_nothing(stage: Stage) -> None:
    path = paused(stage)
    change(path, "session_id: ", "session_id: ses-20200101-000000 # ", NEW)
    result = stage.resume({"session": ["continue"]})
    assert result.of(TasksImported) == []
    assert result.of(EditRefused) == []
    assert result.states == {"task-001": "merged", "task-002": "merged"}
