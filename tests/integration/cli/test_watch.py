"""`blueflame watch` on real sessions: at a terminal, in a pipe, for programs, for one agent; and when nothing runs."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from blueflame.cli.live.follow import FollowedSession
from blueflame.model.exit_codes import ExitCode
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_session, load_session, open_journal
from support.command_line import YES, Said, at_terminal, configure, here, launched, task, until, write

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
STEPS = (
    {"say": "Читаю \x1b[2Jзадачу"},
    {"usage": {"input_tokens": 12_000, "output_tokens": 449, "cost_usd": 0.42}},
    {"write": {"path": "src/1.txt", "text": "one\n"}},
    {"usage": {"input_tokens": 1, "cost_usd": 0.1}},
    {"write": {"path": "secrets/x.txt", "text": "no\n"}},
    {"say": "Then not"},
)
GOES_ON = ({"run": "until grep -q go src/1.txt; do sleep 0.05; done"}, {"commit": "feat(task-001): one"})
"""Until that is written to its file."""

Verb = Callable[..., Said]


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    roles = {name: {"budget_usd": 0.6} for name in ("planner", "worker")}
    configure(repo, {"limits": {"kill_grace": "1s"}, "roles": roles})
    monkeypatch.chdir(repo)
    return repo


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]) -> Verb:
    return lambda *argv: here(capsys, *argv)


@contextmanager
def at_work(project: Path, verb: Verb, *more: object) -> Iterator[Popen[str]]:
    """A session whose only worker has done all this and then hangs, or does more."""
    steps = [*STEPS, *(more or [{"sleep": "forever"}])]
    parts = {"planner": [{"plan": [task(1)]}], "defaults": {"worker": {"1": steps}}}
    script, answers = write(project.parent / "игра.yaml", parts), write(project.parent / "решения.yaml", YES)
    argv = ("run", "--task", "x", "-w", "flow", "--script", script, "--decisions-file", answers, "--quiet")
    with launched(*argv, cwd=project) as process:
        until(lambda: any(row["words"] == "Then not" for row in rows(verb)), what="the worker's last words")
        yield process
        if process.poll() is None:
            verb("stop", "--now")
            process.wait(60)


def rows(verb: Verb) -> list[dict[str, Any]]:
    said = verb("watch", "--once", "--json")
    return [json.loads(line) for line in said.out.splitlines()] if said.code == 0 else []


def documented(title: str) -> set[str]:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert found, title
    return set(re.findall(r"`([a-z_]+)`", found[1]))


def test_what_each_agent_does_and_what_one_of_them_did_is_shown_at_once(project: Path, verb: Verb) -> None:
    with at_work(project, verb):
        (row,) = rows(verb)
        assert set(row) | {key for each in row["budgets"] for key in each} <= documented("watch")
        assert (row["state"], row["words"], row["calls"], row["refused"]) == ("working", "Then not", 2, 1)
        assert (row["tool"], row["target"], row["subject"]) == ("Write", "secrets/x.txt", "task-001")
        assert (row["tokens"], row["cost_usd"]) == (12_450, 0.52)
        assert {"name": "attempt", "unit": "usd", "limit": 0.6} in row["budgets"]
        text = verb("watch", "--once").out
        assert re.search(r"▸ task-001 #1  worker-\w{8}  \d:\d\d  Then not · Write .*… +\$0\.52  ━━━━─!$", text, re.M)
        assert "~$0.5" in text
        status = verb("status").out
        assert re.search(r"12\.4k  \$0\.52  working", status)
        agent = row["agent"]
        lines = verb("watch", "--agent", agent, "--once").out.splitlines()
        assert [line[10:].partition(": write ")[0] for line in lines] == [
            "» Читаю ␛[2Jзадачу",
            "$ 12.4k tokens, $0.42",
            "✓ Write src/1.txt",
            "$ 1 tokens, $0.10; 12.4k tokens, $0.52 so far",
            "✗ Write secrets/x.txt refused",
            "» Then not",
        ]
        by_task = verb("watch", "-a", "task-001", "--once", "--json").out.splitlines()
        result = [json.loads(line) for line in by_task]
        assert [each["kind"] for each in result] == ["words", "used", "call", "used", "call", "words"]
        assert [each["decision"] for each in result if each["kind"] == "call"] == ["allow", "block"]
        assert {key for each in result for key in each} <= documented("watch")
        wrong = verb("watch", "--agent", "nobody", "--once")
        assert wrong.code == ExitCode.USAGE
        assert f"{agent} (task-001)" in wrong.err


def test_views_end_without_the_session_and_without_an_orchestrator(project: Path, verb: Verb) -> None:
    with at_work(project, verb) as session:
        with at_terminal("watch", cwd=project) as screen:
            screen.expect("▸ task-001 #1")
            screen.expect("Then not")
            screen.type("\x03")
            screen.expect("View closed; the session continues.")
            assert screen.end() == ExitCode.INTERRUPTED
        assert session.poll() is None
        with launched("watch", cwd=project) as pipe, at_terminal("watch", cwd=project, columns=60) as screen:
            assert pipe.stdout is not None
            first = pipe.stdout.readline()
            assert "task-001 #1  Then not  (12.4k tokens, $0.52, 2 calls, 1 refused)" in first
            screen.expect("Then not")
            verb("stop", "--now")
            screen.expect("Continue with 'blueflame resume'")
            assert screen.end() == 0
            rest, _ = pipe.communicate(timeout=60)
        assert rest.splitlines()[-1].endswith("Not running. Continue with 'blueflame resume'.")
        assert "task-001 #1 cancelled" in rest
        assert "\x1b" not in rest
        assert pipe.returncode == 0


def test_a_program_gets_each_change_and_the_end(project: Path, verb: Verb) -> None:
    with at_work(project, verb), launched("watch", "--json", cwd=project) as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        assert first["words"] == "Then not"
        verb("kill", "task-001", "-m", "enough")
        result = [first]
        while result[-1]["ending"] is None:
            result.append(json.loads(watching.stdout.readline()))
        assert (result[-1]["state"], result[-1]["ending"], result[-1]["attempt"]) == (
            "ended",
            "cancelled",
            first["attempt"],
        )
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == ExitCode.INTERRUPTED


def test_the_view_ends_with_the_session(project: Path, verb: Verb) -> None:
    nothing = verb("watch")
    assert nothing.code == ExitCode.USAGE
    assert "blueflame run" in nothing.err
    with at_work(project, verb, *GOES_ON) as session:
        (row,) = rows(verb)
        with at_terminal("watch", cwd=project, columns=100) as screen:
            screen.expect("12.4k tok  $0.52")
            write(project / ".trees" / row["agent"] / "src" / "1.txt", "go\n")
            screen.expect("ended: completed: everything has landed.")
            assert screen.end() == 0
        assert session.wait(60) == 0
    over = verb("watch")
    assert (over.code, over.err) == (0, "")
    assert "Start the next one with 'blueflame run'" in over.out
    machine = verb("watch", "--json")
    assert (machine.code, machine.out) == (0, "")
    assert "ended: completed" in machine.err
    assert "1 of 1 landed" in verb("watch", "--once").out
    assert rows(verb) == []
    lines = verb("watch", "--agent", row["agent"][:10]).out.splitlines()
    assert lines[-1].startswith(f"{row['agent']} ended: passed after ")


def test_the_end_of_a_session_is_not_taken_for_a_stop_by_a_view_that_is_behind(project: Path, verb: Verb) -> None:
    with at_work(project, verb, *GOES_ON) as session, open_journal(opened := open_project(None)) as journal:
        watched = FollowedSession(opened, journal, load_session(journal, find_session(journal, None)))
        write(project / ".trees" / rows(verb)[0]["agent"] / "src" / "1.txt", "go\n")
        assert session.wait(60) == 0
        assert (watched.describe_end(), watched.take_notice()) == ("", "")
        watched.read_new_events()
        assert "ended: completed" in watched.describe_end()
        assert watched.take_notice() == ""


def test_the_death_of_the_orchestrator_is_reported_while_its_agents_run(project: Path, verb: Verb) -> None:
    with at_work(project, verb, *GOES_ON) as session:
        (row,) = rows(verb)
        with launched("watch", cwd=project) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert watching.stdout.readline()
            session.kill()
            session.wait()
            assert "orchestrator is not running, its agents are" in watching.stderr.readline()
            write(project / ".trees" / row["agent"] / "src" / "1.txt", "go\n")
            assert watching.wait(60) == 0
