"""What `blueflame status` and agents.json say while agents work, hang and die: never a good state for a bad one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
import pytest

from support.command_line import YES, Said, configure, here, launched, task, until, write

LIMITS = {"heartbeat_interval": "300ms", "kill_grace": "1s", "stall_timeout": "1m"}


Verb = Callable[..., Said]


@pytest.fixture
def project(repo: Path, forked_commands: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo, {"limits": LIMITS})
    monkeypatch.chdir(repo)
    return repo


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]) -> Verb:
    return lambda *argv: here(capsys, *argv)


@contextmanager
def at_work(project: Path, *steps: object) -> Iterator[Popen[str]]:
    """A session whose only worker does this and then hangs."""
    parts = {"planner": [{"plan": [task(1)]}], "defaults": {"worker": {"1": [*steps, {"sleep": "forever"}]}}}
    files = project.parent
    script, answers = write(files / "игра.yaml", parts), write(files / "решения.yaml", YES)
    argv = ("run", "--task", "x", "-w", "flow", "--script", script, "--decisions-file", answers, "--quiet")
    with launched(*argv, cwd=project) as process:
        yield process


def status(verb: Verb) -> dict[str, Any]:
    said = verb("status", "--json")
    return said.json if said.code == 0 else {"attempts": []}


def worker(verb: Verb) -> dict[str, Any]:
    """The worker in the status, once it runs."""

    def found() -> dict[str, Any] | None:
        rows = [row for row in status(verb)["attempts"] if row["role"] == "worker"]
        return next((row for row in rows if row["pid"]), None)

    row = until(found, what="a worker at work")
    assert row is not None
    return row


def exported(project: Path) -> dict[str, Any]:
    rows = json.loads((project / ".blueflame" / "agents.json").read_text())["agents"]
    workers: list[dict[str, Any]] = [row for row in rows if row["role"] == "worker"]
    assert len(workers) <= 1
    return workers[0] if workers else {}  # it is written a little later than the journal


def stop(process: Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_a_working_agent_is_shown_with_all_that_is_known_of_it(project: Path, verb: Verb) -> None:
    usage = {"usage": {"cost_usd": 0.25, "input_tokens": 7}}
    with at_work(project, {"say": "думаю"}, usage) as process:
        row = worker(verb)
        assert (row["state"], row["subject"]) == ("working", "task-001")
        assert psutil.Process(row["pid"]).ppid() == row["warden_pid"]
        until(lambda: exported(project).get("cost_usd") == 0.25, what="the cost so far in agents.json")
        result = exported(project)
        assert (result["state"], result["pid"], result["pgid"]) == ("working", row["pid"], row["pid"])
        assert result["tokens_used"] == 7
        assert result["last_output"]
        assert worker(verb)["cost_usd"] == 0.25
        holder = status(verb)["orchestrator"]
        assert (holder["pid"], holder["late"]) == (process.pid, False)
        said = verb("status").out
        assert f"is running this session (pid {process.pid}, for " in said
        assert str(row["pid"]) in said
        assert "$0.25" in said
        assert "думаю" in said
        stop(process)
    assert exported(project)["state"] == "ended"
    assert status(verb)["orchestrator"] is None


def test_a_silent_agent_is_shown_as_silent(project: Path, verb: Verb) -> None:
    configure(project, {"limits": {**LIMITS, "stall_timeout": "1s"}})
    with at_work(project, {"say": "hm"}) as process:
        until(lambda: worker(verb)["state"] == "silent", what="silence in status")
        until(lambda: exported(project).get("state") == "silent", what="silence in agents.json")
        until(lambda: "has had no output for" in verb("log").out, what="the event")
        stop(process)


def test_an_orchestrator_that_hangs_is_not_shown_as_working(project: Path, verb: Verb) -> None:
    with at_work(project) as process:
        row = worker(verb)
        process.send_signal(signal.SIGSTOP)
        try:
            until(lambda: status(verb)["orchestrator"]["late"], what="that it no longer reports")
            said = verb("status").out
            assert "has not reported for" in said
            assert "is running this session" not in said
            assert worker(verb)["state"] == row["state"], "its agents are as they were"
        finally:
            process.send_signal(signal.SIGCONT)
        stop(process)


def test_what_was_killed_is_lost_and_not_well(project: Path, verb: Verb) -> None:
    with at_work(project) as process:
        row = worker(verb)
        process.kill()
        process.communicate()
        assert "The orchestrator is not running, its agents are" in verb("status").out
        os.kill(row["warden_pid"], signal.SIGKILL)
        until(lambda: not psutil.pid_exists(row["pid"]), what="the agent's end")
    result = status(verb)
    (lost,) = [row for row in result["attempts"] if row["role"] == "worker"]
    assert (lost["state"], lost["pid"]) == ("lost", None)
    assert "its warden is gone" in lost["why"]
    assert "Not running. Continue with" in verb("status").out


def test_a_check_that_hangs_is_seen(project: Path, verb: Verb) -> None:
    hanging = {"validator_diagnostics": {"commands": ["echo checking; exec sleep 600"]}}
    configure(project, {"limits": LIMITS, "validation": hanging})
    answers = write(project.parent / "решения.yaml", YES)
    with launched("run", "--task", "x", "-w", "direct", "--decisions-file", answers, "--quiet", cwd=project) as process:
        (check,) = until(lambda: [each for each in status(verb).get("commands", []) if each["pid"]], what="a check")
        assert check["name"].startswith("task-001")
        assert "Running checks and hooks" in verb("status").out
        stop(process)
    assert not psutil.pid_exists(check["pid"])
