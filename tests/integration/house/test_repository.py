"""A repository as the house sees it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.house.background import BackgroundCommand
from blueflame.house.repository import WatchedRepository
from blueflame.journal.journal import Journal
from blueflame.model.event import Event, GateOpened, SessionEnded
from blueflame.model.gate import FORMS, Gate, GateKind
from blueflame.system.process import start_background
from support.houses import OPENED, make_served_repository

GATE = Gate(id="g", kind=GateKind.PLAN, subject="s", title="?", options=FORMS[GateKind.PLAN].options, default="quit")


def test_a_commit_is_noticed_when_it_can_be_read(tmp_path: Path) -> None:
    """A commit that its disk saves for seconds is in the -wal, and no file changes its time when it can be read.

    Nor does it if it is written in the same step of the clock. A gate was never asked about because of it.
    """
    repository = make_served_repository(tmp_path / "shop")
    path = repository / ".blueflame" / "journal.db"
    watched = WatchedRepository("shop", repository / "blueflame.yaml")
    with Journal.open(path) as journal:
        journal.append("ses-1", 0, [OPENED, *[GateOpened(gate=replace(GATE, id="older"))] * 200], 1.0)
        journal.append("ses-1", 201, [GateOpened(gate=replace(GATE, id="old"))], 2.0)  # the -wal begins again
        _set_times(path, 1)
        watched.look()
        size = path.with_name("journal.db-wal").stat().st_size
        journal.append("ses-1", 202, [GateOpened(gate=GATE)], 2.0)
        _set_times(path, 1)
        assert path.with_name("journal.db-wal").stat().st_size == size
        watched.look()
        assert list(watched.watch("ses-1").gates) == ["older", "old", "g"]
        journal.append("ses-1", 203, [SessionEnded(outcome="completed")], 3.0)
        _set_times(path, 1)
        watched.look()
        assert (watched.watch("ses-1").ended, watched.watch("ses-1").gates, watched.unfinished) == ("completed", {}, "")


def _set_times(path: Path, seconds: int) -> None:
    for file in (path, path.with_name(f"{path.name}-wal")):
        os.utime(file, (seconds, seconds))


def test_a_journal_that_does_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_served_repository(tmp_path / "shop")
    watched = WatchedRepository("shop", repository / "blueflame.yaml")
    with Journal.open(repository / ".blueflame" / "journal.db") as journal:
        journal.append("ses-1", 0, [OPENED], 1.0)
        watched.look()
        monkeypatch.setattr(Journal, "open_read_only", None)
        watched.look()
    assert watched.problem == ""


@pytest.mark.parametrize("left", [0, 2], ids=["deleted", "an older copy"])
def test_a_session_is_followed_by_the_journal_that_is_there(tmp_path: Path, left: int) -> None:
    """Its end was missed when an older copy was put back and it went on from there."""
    repository = make_served_repository(tmp_path / "shop")
    path = repository / ".blueflame" / "journal.db"
    events: list[Event] = [OPENED, *[GateOpened(gate=GATE)] * 4]
    watched = WatchedRepository("shop", repository / "blueflame.yaml")
    with Journal.open(path) as journal:
        journal.append("ses-1", 0, events, 1.0)
    watched.look()
    assert (watched.watch("ses-1").seq, watched.describe_loss("ses-1", "req-1")) == (5, "")
    for each in path.parent.glob("journal.*"):
        each.unlink()
    if left:
        with Journal.open(path) as journal:
            journal.append("ses-1", 0, events[:left], 1.0)
            watched.look()
            journal.append("ses-1", left, [SessionEnded(outcome="completed")], 2.0)
    watched.look()
    assert watched.watch("ses-1").ended == ("completed" if left else "")
    assert ("requests cancel req-1" in watched.describe_loss("ses-1", "req-1")) == (not left)
    assert watched.unfinished == ""


def test_a_missing_configuration_is_a_problem_with_its_fix_and_goes_away(tmp_path: Path) -> None:
    watched = WatchedRepository("shop", tmp_path / "shop" / "blueflame.yaml")
    watched.look()
    assert "correct its path in house.yaml" in watched.problem
    make_served_repository(tmp_path / "shop")
    watched.look()
    assert (watched.problem, watched.pid, watched.unfinished) == ("", None, "")


def test_a_folder_that_cannot_be_looked_into_is_a_problem_and_no_error(tmp_path: Path) -> None:
    watched = WatchedRepository("shop", tmp_path / ("x" * 300) / "blueflame.yaml")  # refused to root, too
    watched.look()
    assert "File name too long; " in watched.problem


def test_the_process_of_the_request_before_is_not_a_failed_start_of_the_next_one(tmp_path: Path) -> None:
    """It may end a little after its session: its last words were taken for why the next one could not start."""
    watched = WatchedRepository("shop", tmp_path / "blueflame.yaml")
    watched.command = BackgroundCommand(start_background(["true"]), tmp_path / "background.log", 0)
    watched.started = "req-1"
    assert watched.find_start_of("req-1") is watched.command
    assert watched.find_start_of("req-2") is None
    assert watched.command.process.wait(60)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo blueflame: a warning; echo blueflame: it is broken; exit 4", "it is broken"),
        ("echo blueflame: a warning; kill -9 $$", "its process was ended by signal 9; see "),
        ("exit 4", "it ended with exit code 4; see "),
    ],
)
def test_why_a_process_failed_is_its_last_message_or_what_killed_it(tmp_path: Path, script: str, words: str) -> None:
    log = tmp_path / "background.log"
    command = BackgroundCommand(start_background(["sh", "-c", script], log=log), log, 0)
    assert command.process.wait(60)
    assert command.describe_failure().startswith(words)
