"""A person at a real terminal: questions, interrupts, a closed window; and answers from another terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from support.command_line import (
    YES,
    Terminal,
    at_terminal,
    call,
    configure,
    found_in,
    here,
    launched,
    look,
    task,
    until,
    write,
)
from support.repositories import make_repository, run_git
from support.snapshots import Snapshots

pytestmark = pytest.mark.slow

SLOW: Mapping[str, Any] = {
    "planner": [{"plan": [task(1), task(2)]}],
    "defaults": {"worker": [{"say": "pondering"}, {"sleep": "forever"}]},
}


@pytest.fixture
def program(repo: Path) -> Path:
    """A repository for commands that are started as programs, with their wardens."""
    configure(repo)
    return repo


@pytest.fixture
def project(repo: Path, forked_commands: None) -> Path:
    configure(repo)
    return repo


def start(project: Path, *more: object) -> AbstractContextManager[Terminal]:
    return at_terminal("run", "--task", "Добавь приветствие", *more, cwd=project)


def test_a_whole_session_at_the_terminal(project: Path) -> None:
    with start(project) as screen:
        plan = screen.expect("(q)uit?")
        assert "Добавь приветствие" in plan
        assert "Approve the plan of 1 task?" in plan
        review = plan[plan.rindex("Plan review") :]  # what came before was drawn over
        assert max(len(line) for line in review.splitlines()) <= 80
        screen.type("a\n")
        screen.expect("(s)kip?")
        screen.type("v\n")
        assert "diff --git" in screen.expect("(s)kip?")
        screen.type("r\n")
        screen.expect("reason")
        screen.type("ещё раз\n")
        assert "re-queued with your reason" in screen.expect("(s)top?")
        screen.type("c\n")
        screen.expect("(s)kip?")
        screen.type("a\n")
        screen.expect("completed: everything has landed")
        assert screen.end() == 0
    assert "Добавь приветствие" in run_git(project, "log", "-1", "--format=%s", "main")


def test_an_answer_from_a_second_terminal_wins(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with start(project, "--workflow", "direct") as screen:
        screen.expect("(s)kip?")
        os.chdir(project)
        (gate,) = here(capsys, "gates", "--json").json["gates"]
        assert here(capsys, "answer", gate["id"], "r").err.endswith("pass it with --note\n")
        said = here(capsys, "answer", gate["id"], "a", "--json")
        assert (said.code, said.json["state"]) == (0, "taken")
        screen.expect("Answered elsewhere: approve")
        assert screen.end() == 0
        late = here(capsys, "answer", gate["id"], "reject", "--note", "нет")
        assert late.code == 2
        assert "already answered: approve" in late.err


def test_a_terminal_closed_at_a_gate_leaves_a_session_to_resume(project: Path) -> None:
    with start(project, "--workflow", "direct") as screen:
        screen.expect("(s)kip?")
        screen.close()
        screen.end()
    found = found_in(project)
    assert found["orchestrator_pid"] is None
    assert [gate["kind"] for gate in found["gates"]] == ["changeset"]
    with at_terminal("resume", cwd=project) as screen:
        screen.expect("resuming ses-")
        screen.expect("(s)kip?")
        screen.type("a\n")
        assert screen.end() == 0


def test_a_terminal_closed_while_agents_work_leaves_no_crash_log(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write(tmp_path / "медленно.yaml", SLOW)
    decisions = write(tmp_path / "решения.yaml", YES)
    with start(project, "--script", script, "--decisions-file", decisions) as screen:
        screen.expect("pondering")
        screen.close()
        assert screen.end() == 6
    assert list((project / ".blueflame" / "logs").glob("crash-*")) == []
    monkeypatch.chdir(project)
    for attempt in here(capsys, "status", "--json").json["attempts"]:  # they were left running, as they should be
        if attempt["warden_pid"]:
            os.kill(attempt["warden_pid"], signal.SIGTERM)


def test_a_closed_pipe_does_not_end_the_session(program: Path, tmp_path: Path) -> None:
    """`blueflame run 2>&1 | true`: closed before its first warning, which it gives before the session begins."""
    decisions = write(tmp_path / "решения.yaml", YES)
    words = ("run", "--task", "Добавь", "--workflow", "direct", "--decisions-file", decisions)
    with launched(*words, cwd=program) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        assert process.wait(60) == 0
    assert found_in(program)["outcome"] == "completed"
    assert list((program / ".blueflame" / "logs").glob("crash-*")) == []


def test_control_c_at_a_gate_stops_in_good_order(project: Path) -> None:
    with start(project, "--workflow", "direct") as screen:
        screen.expect("(s)kip?")
        screen.type("\x03")
        screen.expect("Stopped. Continue with")
        assert screen.end() == 6
    assert found_in(project)["gates"]


def test_control_c_while_agents_work_asks_them_to_end(project: Path, tmp_path: Path) -> None:
    script = write(tmp_path / "медленно.yaml", SLOW)
    decisions = write(tmp_path / "решения.yaml", YES)
    with start(project, "--script", script, "--decisions-file", decisions) as screen:
        screen.expect("pondering")
        screen.type("\x03")
        screen.expect("once more to end them at once")
        advice = screen.expect("медленно.yaml")
        assert "Continue with: blueflame resume" in advice  # with the flags that it needs
        assert screen.end() == 6
    found = found_in(project)
    assert {each["ending"] for each in found["attempts"]} == {"passed", "cancelled"}
    assert found["locks"] == []


def test_a_second_control_c_ends_stubborn_agents_at_once(project: Path, tmp_path: Path) -> None:
    script = write(tmp_path / "play.yaml", {"defaults": {"worker": "stubborn"}})
    with start(project, "--workflow", "direct", "--script", script) as screen:
        until_agents_run(project)
        screen.type("\x03")
        screen.expect("once more to end them at once")
        screen.type("\x03")
        screen.expect("stopping at once")
        assert screen.end() == 6


def until_agents_run(project: Path) -> None:
    until(lambda: (found := look(project)) and found["locks"], what="an agent at work")


def test_an_orchestrator_that_is_killed_loses_nothing(program: Path, tmp_path: Path) -> None:
    slow = {
        "defaults": {"worker": [{"say": "pondering"}, {"sleep": 1.5}, {"note": None}, {"commit": "feat({task}): x"}]}
    }
    script = write(tmp_path / "play.yaml", slow)
    with start(program, "--workflow", "direct", "--script", script) as screen:
        screen.expect("pondering")
        os.kill(screen.process.pid, signal.SIGKILL)
        screen.end()
    decisions = write(tmp_path / "решения.yaml", YES)
    said = call("resume", "--script", script, "--decisions-file", decisions, "--json", cwd=program)
    assert said.code == 0, said.err
    assert [each["n"] for each in said.json["attempts"]] == [1]  # adopted, not done again


@pytest.fixture
def paused(
    snapshots: Snapshots, forked_commands: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A repository with a session that stopped at its first gate."""

    def build(folder: Path) -> None:
        root = make_repository(folder / "мой repo")
        configure(root)
        decisions = write(folder / "мало.yaml", {"session": ["stop"]})
        words = ("run", "--task", "Первое", "--decisions-file", decisions, "--quiet")
        said = here(capsys, *words, "--config", root / "blueflame.yaml")
        assert said.code == 7
        assert "ran out at gate plan" in said.err

    root = snapshots.open("terminal", build) / "мой repo"
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def unfinished(paused: Path) -> str:
    return str(found_in(paused)["session"])


@pytest.mark.parametrize(
    ("answer", "code", "outcome"), [("q", 3, None), ("r", 5, "plan_rejected"), ("f", 5, "abandoned")]
)
def test_an_unfinished_session_is_asked_about(
    answer: str, code: int, outcome: str | None, paused: Path, unfinished: str
) -> None:
    with at_terminal("run", "--task", "Второе", cwd=paused) as screen:
        assert unfinished in screen.expect("(q)uit?")
        screen.type(f"{answer}\n")
        if answer != "q":
            screen.expect("(q)uit?")  # of the plan: the old one's, or a new one's
            screen.type("q\n")
        assert screen.end() == code
    assert found_in(paused, unfinished)["outcome"] == outcome


def test_without_a_terminal_an_unfinished_session_is_a_refusal(
    paused: Path, unfinished: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = here(capsys, "run", "--task", "Второе")
    assert said.code == 3
    for word in (unfinished, "Первое", "blueflame resume", "--fresh"):
        assert word in said.err
    decisions = write(paused.parent / "решения.yaml", {**YES, "resume": ["resume"]})
    assert here(capsys, "run", "--task", "Второе", "--decisions-file", decisions, "-q").code == 0
    assert found_in(paused)["session"] == unfinished


def test_a_fresh_start_ends_the_unfinished_session(
    paused: Path, unfinished: str, capsys: pytest.CaptureFixture[str]
) -> None:
    decisions = write(paused.parent / "решения.yaml", YES)
    said = here(capsys, "run", "--fresh", "--task", "Второе", "-w", "direct", "--decisions-file", decisions)
    assert said.code == 0, said.err
    assert found_in(paused)["session"] != unfinished
    assert here(capsys, "status", unfinished, "--json").json["outcome"] == "abandoned"


@pytest.mark.usefixtures("guards_are_known")
def test_a_pipe_gets_no_escape_codes(
    paused: Path, unfinished: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    for argv in (["status"], ["gates"], ["log"], ["doctor"], ["cleanup", "--dry-run"], ["--help"]):
        said = here(capsys, *argv)
        assert "\x1b" not in said.out + said.err, argv
    decisions = write(paused.parent / "решения.yaml", YES)
    said = here(capsys, "resume", "--decisions-file", decisions)
    assert "landed as" in said.out
    assert "\x1b" not in said.out + said.err


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_colour_is_for_terminals_that_want_it(
    no_color: str | None, coloured: bool, paused: Path, unfinished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    with at_terminal("status", cwd=paused, env={"NO_COLOR": no_color} if no_color else {}) as screen:
        assert ("\x1b[3" in raw(screen)) is coloured


def raw(screen: Terminal) -> str:
    """The output, with escape codes."""
    found = b""
    try:
        while data := os.read(screen.master, 65536):
            found += data
    except OSError:  # EIO: it has ended
        pass
    return found.decode("utf-8", "replace")
