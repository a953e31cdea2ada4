"""`blueflame undo`: one landing is taken back by a commit of its own, or nothing is touched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blueflame.model.changeset import ChangesetState
from blueflame.model.event import LandingUndone
from blueflame.orchestrator.lifecycle import lock_project
from support.command_line import at_terminal, here, trust
from support.repositories import make_repository
from support.sessions import Stage, find_stage, make_stage, task, writes
from support.snapshots import Snapshots


@pytest.fixture
def landed(snapshots: Snapshots) -> Stage:
    """The stage after its session, whose landings were merges."""
    folder = snapshots.open("undo", lambda new: land(make_stage(make_repository(new / "мой repo"))))
    stage = find_stage(folder / "мой repo")
    trust(stage.config)
    return stage


def land(stage: Stage) -> None:
    """Two groups, one after the other; the second builds on the first."""
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b", after=[1]),
        workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")},
    )
    stage.run()


def test_a_landing_is_reverted_by_a_new_commit_and_the_rest_stays(
    landed: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert landed.project().settings.landing.mode == "merge"
    it_is_reverted_and_the_rest_stays(landed, capsys)


@pytest.mark.parametrize("mode", ["squash", "fast-forward"])
def test_a_landing_without_a_merge_is_reverted_in_the_same_way(
    repo: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    stage = make_stage(repo, landing={"mode": mode})
    land(stage)
    it_is_reverted_and_the_rest_stays(stage, capsys)


def _find_landing(stage: Stage, changeset: str) -> str:
    record = stage.look()[0].changesets[changeset]
    return record.landed_as or ""


def it_is_reverted_and_the_rest_stays(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    before = stage.head()
    landed_as = stage.git("log", "-1", "--format=%s", _find_landing(stage, "cs-001")).strip()
    said = here(capsys, "undo", "cs-001", "--yes", "--config", stage.config)
    assert said.code == 0
    assert "reverts task-001" in said.out
    assert "cs-002 landed later and builds on it" in said.out
    assert stage.git("rev-parse", "main^@").split() == [before]
    assert stage.git("log", "-1", "--format=%s", "main") == f'Revert "{landed_as}"\n'
    assert stage.git("log", "-1", "--format=%(trailers:key=Blue-Flame-Task,valueonly)", "main").strip() == "task-001"
    assert "src/1.txt" not in stage.files()
    assert stage.read("src/2.txt") == "two\n"
    assert not (stage.root / "src/1.txt").exists(), "the clean checkout is brought along"
    assert stage.git("status", "--porcelain") == ""
    session, events = stage.look()
    assert isinstance(events[-1].event, LandingUndone)
    assert session.changesets["cs-001"].state is ChangesetState.UNDONE
    assert session.outcome == "completed"


def test_a_landing_is_taken_back_once_and_what_was_taken_back_is_shown(
    landed: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    result = here(capsys, "undo", "cs-002", "--yes", "--json", "--config", landed.config)
    assert result.json["tasks"] == ["task-002"]
    assert result.json["after"] == landed.head()
    again = here(capsys, "undo", "cs-002", "--yes", "--config", landed.config)
    assert again.code == 3
    assert "was undone by" in again.err
    assert re.search(r"→ +task-002 +undone ", here(capsys, "status", "--config", landed.config).out)
    assert here(capsys, "undo", "cs-009", "--yes", "--config", landed.config).code == 2


def test_what_later_work_stands_on_is_not_taken_back(landed: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    landed.commit("src/1.txt", "mine now\n")
    head = landed.head()
    said = here(capsys, "undo", "cs-001", "--yes", "--config", landed.config)
    assert said.code == 3
    assert "later work on main changed the same places (src/1.txt)" in said.err
    assert landed.head() == head


def test_a_dirty_checkout_is_not_touched_and_nothing_is_asked_without_a_terminal(
    landed: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    head = landed.head()
    assert "pass --yes" in here(capsys, "undo", "cs-001", "--config", landed.config).err
    (landed.root / "src/1.txt").write_text("scribble\n")
    said = here(capsys, "undo", "cs-001", "--yes", "--config", landed.config)
    assert said.code == 3
    assert "nothing was changed" in said.err
    assert (landed.head(), (landed.root / "src/1.txt").read_text()) == (head, "scribble\n")


def test_at_a_terminal_it_asks_first(landed: Stage) -> None:
    head = landed.head()
    for typed, left in (("n", "nothing was changed"), ("y", "cs-002 reverted")):
        with at_terminal("undo", "cs-002", cwd=landed.root) as terminal:
            terminal.expect("reverts task-002")
            terminal.expect("Revert it with a commit on main?")
            terminal.type(f"{typed}\n")
            terminal.expect(left)
            assert terminal.end() == (0 if typed == "y" else 3)
        assert (landed.head() == head) is (typed == "n")


def test_while_an_orchestrator_runs_nothing_is_taken_back(landed: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    head = landed.head()
    with lock_project(landed.project()):
        said = here(capsys, "undo", "cs-001", "--yes", "--config", landed.config)
    assert said.code == 3
    assert "another Blue Flame runs in" in said.err
    assert landed.head() == head


def test_an_undo_whose_note_was_lost_in_a_crash_is_not_done_twice(
    landed: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr("blueflame.journal.journal.Journal.append", _dies)
        assert here(capsys, "undo", "cs-001", "--yes", "--config", landed.config).code == 130
    head = landed.head()
    assert here(capsys, "undo", "cs-001", "--yes", "--config", landed.config).code == 0
    assert landed.head() == head
    assert landed.look()[0].changesets["cs-001"].state is ChangesetState.UNDONE


def _dies(*_args: object, **_more: object) -> None:
    raise KeyboardInterrupt
