"""Searching a changeset for secrets with a program that does not come to its end: no task is blamed, nothing stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from blueflame.git import secret_scan
from blueflame.model.event import EnvironmentFailed, JournalEntry, ScanDelayed
from blueflame.orchestrator.cleanup import LeftoverKind, find_leftovers
from blueflame.orchestrator.merge_queue import build_and_land
from blueflame.orchestrator.sessions import open_journal
from blueflame.session.state import Session
from blueflame.views.session import build_session_json
from support.sessions import Stage, Watcher, plan_of, start_orchestrator, task, writes
from support.wardens import wait_until

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def hanging(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A scanner that hangs until its file is removed; its pid is in `scanning`."""
    program, pid = tmp_path / "мой kingfisher", tmp_path / "scanning"
    program.write_text(f"#!/bin/sh\necho $$ > '{pid}.draft'; mv '{pid}.draft' '{pid}'; exec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(secret_scan, "which", lambda _name, path=None: str(program) if program.exists() else None)
    stage.reconfigure(validation={"secrets": {"scanner": "auto"}})
    stage.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "one")})
    yield program
    if pid.exists():
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_an_orchestrator_killed_in_a_scan_leaves_no_copies(stage: Stage, hanging: Path) -> None:
    running = start_orchestrator(stage)
    wait_until(hanging.with_name("scanning").exists, "it searches")
    running.kill()
    scans, project = stage.root / ".blueflame/scans", stage.project()
    (copies,) = scans.iterdir()
    assert (copies / "lines/000000.txt").exists()
    with open_journal(project) as journal:
        found = find_leftovers(project.repo, project.paths, journal, now=0.0, max_age=0.0, at_work=False)
        assert [each.path for each in found if each.kind is LeftoverKind.DRAFT] == [copies]
        found = find_leftovers(project.repo, project.paths, journal, now=0.0, max_age=0.0, at_work=True)
        assert not [each for each in found if each.kind is LeftoverKind.DRAFT]
    hanging.unlink()
    assert stage.resume().states == {"task-001": "merged"}
    assert not scans.exists()


def test_a_scan_that_hangs_is_shown_and_held_and_blames_no_task(
    stage: Stage, hanging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_and_land, "SLOW_SCAN_SECONDS", 0.1)
    stage.reconfigure(validation={"secrets": {"scanner": "auto", "timeout": "1s"}})
    shown: list[list[str]] = []

    def see(session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, ScanDelayed):
            shown.append(build_session_json(session, now=recorded.at + 60)["under_way"])
            hanging.unlink(missing_ok=True)

    result = stage.run(observers=[Watcher(see)])
    assert shown[0] == ["build of cs-001: searching for secrets, 1 min 00 s"]
    assert shown[1] == ["build of cs-001"], "the search is over"
    (failed,) = result.of(EnvironmentFailed)
    assert (failed.cause, failed.reason.partition(",")[0]) == (
        "scanner",
        "kingfisher searched for 1 s without an end",
    )
    assert result.states == {"task-001": "merged"}
    assert result.session.tasks["task-001"].retries == 0
