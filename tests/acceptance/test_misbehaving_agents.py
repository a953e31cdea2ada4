"""Agents that lie, break out, hang or flood, through the command line: caught, reported, and never landed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.command_line import YES, Said, configure, here, task, write
from support.repositories import run_git

ONE_GO: Mapping[str, Any] = {"limits": {"max_retries": 0, "agent_timeout": "1s"}}


@pytest.fixture
def project(repo: Path, forked_wardens: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo, ONE_GO)
    monkeypatch.chdir(repo)
    return repo


def play(project: Path, capsys: pytest.CaptureFixture[str], worker: object) -> Said:
    """One task, done by this worker; its failure ends the session."""
    parts = {"planner": [{"plan": [task(1)]}], "defaults": {"worker": worker}}
    files = project.parent
    script = write(files / "игра.yaml", parts)
    answers = write(files / "решения.yaml", {**YES, "session": ["stop"]})
    return here(capsys, "run", "--task", "x", "-w", "flow", "--script", script, "--decisions-file", answers, "--json")


CASES: Mapping[str, tuple[object, str, str]] = {
    "scope-breaker": ("scope-breaker", "postcheck", "outside_file_scope"),
    "liar": ("liar", "no_commits", "commit"),
    "crasher": ("crasher", "crashed", ""),
    "stuck": ("stuck", "timeout", "its time was up"),
    "a blocked path": (
        [{"write": {"path": "blueflame.yaml", "text": "x"}, "rogue": True}, {"commit": "feat({task}): x"}],
        "postcheck",
        "blueflame.yaml",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_caught_and_reported_and_does_not_land(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker, ending, words = CASES[name]
    before = run_git(project, "rev-parse", "main")
    said = play(project, capsys, worker)
    assert said.code == 1, said.err
    (record,) = [each for each in said.json["attempts"] if each["role"] == "worker"]
    assert record["ending"] == ending
    (left,) = said.json["tasks"]
    assert left["state"] == "failed"
    assert words in left["reason"]
    assert run_git(project, "rev-parse", "main") == before
    assert run_git(project, "status", "--porcelain") == "?? blueflame.yaml\n"
    assert ending.replace("_", " ") in here(capsys, "status").out.replace("_", " ")


def test_a_flood_of_output_goes_to_disk_and_not_to_the_screen(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(project)
    said = play(project, capsys, [{"flood": 20}, {"play": "good"}])
    assert said.code == 0, said.err
    (spool,) = project.glob(".blueflame/attempts/*worker*/stdout.log")
    assert spool.stat().st_size > 20 * 10**6
    assert len(said.out) + len(said.err) < 20_000
    assert len(here(capsys, "status").out + here(capsys, "log").out) < 20_000
