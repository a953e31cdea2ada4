from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.journal.journal import Journal
from blueflame.model.event import AttemptStarted
from support.command_line import configure, here
from support.recorded_session import ID, Story


@pytest.fixture
def checkout(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout of the agent of task-001, which is at work."""
    configure(repo)
    monkeypatch.chdir(repo)
    (repo / ".blueflame").mkdir()
    folder = repo / ".trees" / "worker"
    folder.mkdir(parents=True)
    story = Story().working()
    with Journal.open(repo / ".blueflame" / "journal.db") as journal:
        for each in story.recorded:
            event = each.event
            if isinstance(event, AttemptStarted) and "task-001" in event.attempt:
                event = AttemptStarted(attempt=event.attempt, base=event.base, worktree=str(folder), warden_pid=1)
            journal.append(ID, each.seq - 1, [event], each.at)
    return folder


def test_an_editor_is_opened_in_the_agents_checkout(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    editor = tmp_path / "my-editor"
    editor.write_text(f'#!/bin/sh\necho "$PWD $1" > {seen}\nexit 3\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    said = here(capsys, "open", "task-001", "--editor")
    assert said.code == 3
    assert seen.read_text().split() == f"{checkout} {checkout}".split()
    assert "is working here" in said.err


def test_a_program_gets_the_folder_and_opens_nothing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(capsys, "open", "task-001", "--json").json["checkout"] == str(checkout)


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("task-003", "is gone"),
        ("task-002", "no agent has worked on 'task-002'"),
        ("task-099", "called 'task-099'"),
    ],
)
def test_what_cannot_be_opened_is_refused(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "open", name)
    assert said.code in (2, 3)
    assert words in said.err
