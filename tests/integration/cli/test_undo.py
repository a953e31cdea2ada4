"""`blueflame undo`: one landing is taken back by a commit of its own, or nothing is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.model.changeset import ChangesetState
from blueflame.model.event import LandingUndone
from blueflame.orchestrator.lifecycle import lock_project
from support.command_line import at_terminal, here
from support.sessions import SessionRun, Stage, make_stage, task, writes


@pytest.fixture
def stage(repo: Path) -> Stage:
    return make_stage(repo)


def landed(stage: Stage) -> SessionRun:
    """Two groups, one after the other; the second builds on the first."""
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b", after=[1]),
        workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")},
    )
    return stage.run()


@pytest.mark.parametrize("mode", ["merge", "squash", "fast-forward"])
def test_a_landing_is_reverted_by_a_new_commit_and_the_rest_stays(
    stage: Stage, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    stage.reconfigure(landing={"mode": mode})
    landed(stage)
    before = stage.head()
    said = here(capsys, "undo", "cs-001", "--yes", "--config", stage.config)
    assert said.code == 0
    assert "reverts task-001" in said.out
    assert "cs-002 landed later and builds on it" in said.out
    assert stage.git("rev-parse", "main^@").split() == [before]
    assert stage.git("log", "-1", "--format=%s", "main") == "revert(task-001): Task 1\n"
    assert "src/1.txt" not in stage.files()
    assert stage.read("src/2.txt") == "two\n"
    assert not (stage.root / "src/1.txt").exists(), "the clean checkout is brought along"
    assert stage.git("status", "--porcelain") == ""
    session, events = stage.look()
    assert isinstance(events[-1].event, LandingUndone)
    assert session.changesets["cs-001"].state is ChangesetState.UNDONE
    assert session.outcome == "completed"


def test_a_landing_is_taken_back_once_and_what_was_taken_back_can_be_told(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    landed(stage)
    result = here(capsys, "undo", "cs-002", "--yes", "--json", "--config", stage.config)
    assert result.json["tasks"] == ["task-002"]
    assert result.json["after"] == stage.head()
    again = here(capsys, "undo", "cs-002", "--yes", "--config", stage.config)
    assert again.code == 3
    assert "was undone by" in again.err
    assert here(capsys, "undo", "cs-009", "--yes", "--config", stage.config).code == 2


def test_what_later_work_stands_on_is_not_taken_back(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    landed(stage)
    stage.commit("src/1.txt", "mine now\n")
    head = stage.head()
    said = here(capsys, "undo", "cs-001", "--yes", "--config", stage.config)
    assert said.code == 3
    assert "later work on main changed the same places (src/1.txt)" in said.err
    assert stage.head() == head


def test_a_dirty_checkout_is_not_touched_and_nobody_is_asked_without_a_terminal(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    landed(stage)
    head = stage.head()
    assert "pass --yes" in here(capsys, "undo", "cs-001", "--config", stage.config).err
    (stage.root / "src/1.txt").write_text("scribble\n")
    said = here(capsys, "undo", "cs-001", "--yes", "--config", stage.config)
    assert said.code == 3
    assert "nothing was changed" in said.err
    assert (stage.head(), (stage.root / "src/1.txt").read_text()) == (head, "scribble\n")


def test_at_a_terminal_it_asks_first(stage: Stage) -> None:
    landed(stage)
    head = stage.head()
    for typed, left in (("n", "nothing was changed"), ("y", "cs-002 reverted")):
        with at_terminal("undo", "cs-002", cwd=stage.root) as terminal:
            terminal.expect("reverts task-002")
            terminal.expect("Revert it with a commit on main?")
            terminal.type(f"{typed}\n")
            terminal.expect(left)
            assert terminal.end() == (0 if typed == "y" else 3)
        assert (stage.head() == head) is (typed == "n")


def test_while_somebody_is_at_work_nothing_is_taken_back(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    landed(stage)
    head = stage.head()
    with lock_project(stage.project()):
        said = here(capsys, "undo", "cs-001", "--yes", "--config", stage.config)
    assert said.code == 3
    assert "another Blue Flame runs in" in said.err
    assert stage.head() == head


def test_an_undo_whose_note_was_lost_in_a_crash_is_not_done_twice(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    landed(stage)
    with monkeypatch.context() as dying:
        dying.setattr("blueflame.journal.journal.Journal.append", _dies)
        assert here(capsys, "undo", "cs-001", "--yes", "--config", stage.config).code == 130
    head = stage.head()
    assert here(capsys, "undo", "cs-001", "--yes", "--config", stage.config).code == 0
    assert stage.head() == head
    assert stage.look()[0].changesets["cs-001"].state is ChangesetState.UNDONE


def _dies(*_args: object, **_more: object) -> None:
    raise KeyboardInterrupt
