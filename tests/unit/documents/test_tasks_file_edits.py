from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.documents.plans import read_plan
from blueflame.documents.tasks_file import archive_edit, build_edited_path, export_tasks, read_edited_tasks
from blueflame.model.task import Task, TaskRecord

SES = "ses-20260206-143022"
RECORDS = [
    TaskRecord(task=Task(id=f"task-00{n}", title="Название", description="d", file_locks=("a b/",))) for n in (1, 2)
]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    path = tmp_path / "мой .blueflame" / "tasks.yaml"
    assert export_tasks(path, SES, 1, RECORDS) is None
    return path


def change(path: Path, old: str = "Название", new: str = "Other") -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_an_unchanged_file_is_not_an_edit(exported: Path) -> None:
    assert read_edited_tasks(exported) is None
    assert export_tasks(exported, SES, 2, RECORDS) is None
    assert read_edited_tasks(exported) is None
    assert [path.name for path in exported.parent.iterdir()] == ["tasks.yaml"]


def test_what_a_person_wrote_is_kept_when_the_next_export_comes(exported: Path) -> None:
    change(exported)
    aside = export_tasks(exported, SES, 1, RECORDS)
    assert aside == build_edited_path(exported)
    assert [task.title for task in read_plan(exported)] == ["Название", "Название"]
    edit = read_edited_tasks(exported)
    assert edit is not None
    assert (edit.session, [task.title for task in edit.tasks], edit.problems) == (SES, ["Other", "Название"], ())
    assert export_tasks(exported, SES, 1, RECORDS) is None, "it is reported once"


def test_a_file_with_the_header_of_an_earlier_version_is_not_an_edit(exported: Path) -> None:
    first, rest = exported.read_text().split("\n", 1)
    exported.write_text(f"# How the tasks stand.\n{rest}")
    assert "state of all tasks" in first
    assert read_edited_tasks(exported) is None


def test_an_edit_is_found_before_any_export(exported: Path) -> None:
    change(exported)
    edit = read_edited_tasks(exported)
    assert edit is not None and edit.tasks[0].title == "Other"
    assert edit == read_edited_tasks(exported), "reading it twice gives the same"
    archive_edit(edit)
    assert read_edited_tasks(exported) is None
    assert export_tasks(exported, SES, 1, RECORDS) is None


def test_a_second_edit_does_not_lose_the_first(exported: Path) -> None:
    change(exported)
    export_tasks(exported, SES, 1, RECORDS)
    change(exported, new="Another")
    aside = export_tasks(exported, SES, 1, RECORDS)
    assert aside is not None and "Another" in aside.read_text()
    assert "Other" in aside.with_name(f"{aside.name}.old").read_text()


def test_problems_are_reported_with_their_line_and_the_path(exported: Path) -> None:
    change(exported, old="priority: 3", new="priority: high")
    edit = read_edited_tasks(exported)
    assert edit is not None and edit.tasks == ()
    (problem,) = edit.problems
    assert problem.startswith(f"{build_edited_path(exported)}:")
    assert problem.split(":")[1].isdigit()
    assert "task-001: priority must be an integer" in problem


@pytest.mark.parametrize("text", [b"\xff\xfe", b"tasks: [", b"- a\n- b\n", b"tasks: {}\n"])
def test_whatever_is_there_is_read_without_harm(exported: Path, text: bytes) -> None:
    exported.write_bytes(text)
    edit = read_edited_tasks(exported)
    assert edit is not None and edit.problems


def test_a_missing_or_an_empty_file_is_no_edit(exported: Path) -> None:
    exported.write_text("\n")
    assert read_edited_tasks(exported) is None
    exported.unlink()
    assert read_edited_tasks(exported) is None
    assert export_tasks(exported, SES, 1, RECORDS) is None


def test_a_file_tells_where_its_tasks_begin(exported: Path) -> None:
    change(exported)
    edit = read_edited_tasks(exported)
    assert edit is not None
    lines = edit.path.read_text().splitlines()
    assert all(name in lines[line - 1] for name, line in edit.lines.items())
    assert list(edit.lines) == ["task-001", "task-002"]
