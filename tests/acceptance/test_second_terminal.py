"""A session at work in one process, watched and steered from another."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from support.command_line import YES, configure, finish, found_in, here, launched, look, task, until, write
from support.repositories import run_git

pytestmark = pytest.mark.slow

FOREVER = [{"say": "думаю"}, {"sleep": "forever"}]


@pytest.fixture
def project(repo: Path, forked_commands: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


@contextmanager
def at_work(
    project: Path, parts: Mapping[str, Any], *, agents: int, decisions: Mapping[str, Any] = YES
) -> Iterator[Popen[str]]:
    """A session in its own process, once that many agents run."""
    script = write(project.parent / "игра.yaml", parts)
    answers = write(project.parent / "решения.yaml", decisions)
    argv = ("run", "--task", "Работай", "--script", script, "--decisions-file", answers, "--json")
    with launched(*argv, cwd=project) as process:
        until(lambda: len(working(project)) >= agents, what=f"{agents} agents at work")
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def working(project: Path) -> list[dict[str, Any]]:
    found = look(project)
    return found["locks"] if found else []


@pytest.mark.usefixtures("guards_are_known")
def test_status_cleanup_and_refusals_while_a_session_is_at_work(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [task(1), task(2, file_locks=["src/1.txt"]), task(3, dependencies=["task-001"])]
    with at_work(project, {"planner": [{"plan": tasks}], "defaults": {"worker": FOREVER}}, agents=1) as process:
        result = here(capsys, "status", "--json").json
        assert result["orchestrator_pid"] == process.pid
        assert [(lock["task"], lock["paths"]) for lock in result["locks"]] == [("task-001", ["src/1.txt"])]
        assert {each["id"]: each["waits_for"] for each in result["tasks"]} == {
            "task-001": "",
            "task-002": "waits for the lock src/1.txt held by task-001",
            "task-003": "waits for task-001",
        }
        shown = here(capsys, "status").out
        assert "Locks held" in shown
        assert "waits for the lock src/1.txt held by task-001" in shown
        assert f"pid {process.pid}" in shown
        for verb in (["run", "--task", "x"], ["plan", "--task", "x"], ["resume"]):
            said = here(capsys, *verb)
            assert said.code == 3
            assert f"pid {process.pid}" in said.err
        checkouts = sorted(path.name for path in (project / ".trees").iterdir())
        assert here(capsys, "cleanup", "--json").json["removed"] == []
        assert sorted(path.name for path in (project / ".trees").iterdir()) == checkouts
        assert f"running: pid {process.pid}" in here(capsys, "doctor").out
        unknown = here(capsys, "kill", "task-009")
        assert unknown.code == 2
        assert result["locks"][0]["agent"] in unknown.err  # who could be meant
        stopped = here(capsys, "stop", "--json")
        assert (stopped.code, stopped.json["state"]) == (0, "taken")
        said = finish(process)
    assert said.code == 6
    endings = [(each["role"], each["ending"]) for each in said.json["attempts"]]
    assert endings == [("triager", "passed"), ("planner", "passed"), ("worker", "cancelled")]


def test_the_task_of_a_killed_agent_starts_again_with_the_next_cycle(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"planner": [{"plan": [task(1)]}], "defaults": {"worker": {1: FOREVER, 2: "good"}}}
    with at_work(project, parts, agents=1, decisions={**YES, "session": ["continue"]}) as process:
        said = here(capsys, "kill", "task-001", "--reason", "не туда")
        assert said.code == 0
        assert said.out.startswith("ending worker-")
        done = finish(process)
    assert done.code == 0, done.err
    endings = [each["ending"] for each in done.json["attempts"] if each["role"] == "worker"]
    assert endings == ["cancelled", "passed"]
    assert done.json["cycle"] == 2


def test_a_wave_goes_on_with_what_is_done(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = [task(1, cohesion_group="a"), task(2, cohesion_group="b")]
    parts = {"planner": [{"plan": plan}], "tasks": {"task-002": {"worker": FOREVER}}}
    with at_work(project, parts, agents=1, decisions={**YES, "session": ["stop"]}) as process:
        until(lambda: found_in(project)["tasks"][0]["state"] == "done", what="the first task done")
        said = here(capsys, "proceed", "--kill")
        assert (said.code, said.out) == (0, "continuing with what is done\n")
        done = finish(process)
    assert done.code == 1  # the second task has not landed
    assert [each["state"] for each in done.json["tasks"]] == ["merged", "requeued"]
    assert "(task-001)" in run_git(project, "log", "-1", "--format=%s", "main")


def test_agents_that_are_left_at_work_are_adopted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"sleep": 1}, {"note": None}, {"commit": "feat({task}): x"}]
    with at_work(project, {"planner": [{"plan": [task(1)]}], "defaults": {"worker": steps}}, agents=1) as process:
        assert here(capsys, "stop", "--keep-agents").code == 0
        assert finish(process).code == 6
    files = (project.parent / "игра.yaml", project.parent / "решения.yaml")
    said = here(capsys, "resume", "--script", files[0], "--decisions-file", files[1], "--json")
    assert said.code == 0, said.err
    assert [each["n"] for each in said.json["attempts"] if each["role"] == "worker"] == [1]


def test_without_a_terminal_a_gate_waits_and_says_how_it_is_answered(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with launched("run", "--task", "Добавь", "--workflow", "direct", cwd=project) as process:
        until(lambda: (found := look(project)) and found["gates"], what="a gate")
        assert here(capsys, "answer", "changeset-cs-001", "a").out == "changeset-cs-001: approve\n"
        done = finish(process)
    assert done.code == 0, done.err
    assert "Waiting for an answer" in done.err
    assert "blueflame answer changeset-cs-001 approve|reject|skip" in done.err
