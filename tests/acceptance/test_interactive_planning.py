"""A planner that talks with the person before it plans: the real Claude Code on a real terminal, in its sandbox.

Only the model behind it is ours. The person's terminal is handed over and taken back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.testing import LoopbackModel
from support.command_line import call, configure, found_in, task
from support.model_scripts import KEY, build_model_script
from support.real_agents import needs_claude
from support.terminals import TerminalUser, start_terminal_user

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_claude,
    needs_claude,
    pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox"),
]
BLUEFLAME = "import os, sys; os.chdir(sys.argv.pop(1)); from blueflame.cli.main import main; main()"
PLAN = {"tasks": [task(1, description="Paint it red.")]}
TALK = {
    "when": {"user": "Paint the barn"},
    "turns": [
        {"tool": {"shell": "git log --oneline"}},
        {"text": "Which colour shall the barn have?"},
        {"text": "Then crimson it is; leave when you agree."},
        {"structured": PLAN},
        {"text": "planned"},
    ],
}


@pytest.fixture
def project(repo: Path) -> Path:
    configure(repo, {"roles": {"planner": {"runtime": "claude", "model": "sonnet"}}})
    return repo


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackModel]:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("TERM", "xterm-256color")
    with LoopbackModel(build_model_script(TALK)) as serving:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", serving.url)
        yield serving


def say(person: TerminalUser, words: bytes) -> None:
    """Type as a person does: Enter comes after the text is shown."""
    person.type(words)
    person.expect(words[1:])
    person.type(b"\r")


def attempt_of(project: Path) -> dict[str, object]:
    (attempt,) = found_in(project)["attempts"]
    assert isinstance(attempt, dict)
    return attempt


@pytest.mark.verification(53)
def test_the_planner_talks_with_the_person_and_then_plans(project: Path, model: LoopbackModel) -> None:
    with start_terminal_user(BLUEFLAME, project, "plan", "--task", "Paint the barn", rows=40, columns=120) as person:
        person.expect(b"Connected to planner-")
        person.expect(b"To finish, type /exit")
        person.expect(b"colour")
        assert person.is_raw
        say(person, b"crimson")
        person.expect(b"agree")
        say(person, b"/exit")
        assert b"--resume" not in person.expect(b"has ended")
        assert not person.is_raw  # before the gate asks
        person.expect(b"(q)uit?")
        person.type(b"a\n")
        assert person.end() == 0
        assert person.modes == person.modes_before
    attempt = attempt_of(project)
    assert attempt["ending"] == "passed"
    assert [each["title"] for each in found_in(project)["tasks"]] == [PLAN["tasks"][0]["title"]]
    log = project / ".blueflame" / "logs" / f"{attempt['agent']}.audit.jsonl"
    audited = [json.loads(line) for line in log.read_text().splitlines()]
    assert ("Bash", "git log --oneline", "allow") in [
        (each["tool"], each["target"], each["decision"]) for each in audited
    ]


def test_a_talk_outlives_the_orchestrator_and_everybody_who_looks(project: Path, model: LoopbackModel) -> None:
    with start_terminal_user(BLUEFLAME, project, "plan", "--task", "Paint the barn", rows=40, columns=120) as first:
        first.expect(b"Connected to planner-")
        first.expect(b"colour")
        first.process.kill()
        first.process.wait()
    (known,) = call("attach", "--json", cwd=project).json["agents"]
    assert (known["role"], known["has_terminal"]) == ("planner", True)
    with start_terminal_user(BLUEFLAME, project, "resume", rows=40, columns=120) as second:
        second.expect(b"Connected to planner-")
        second.expect(b"colour")  # shown before, and shown again
        second.type(b"\x03")  # to claude, which wants it twice before it leaves
        second.expect(b"again")
        say(second, b"crimson")
        second.expect(b"agree")
        second.type(b"\x1d")
        second.expect(b"To reconnect: blueflame attach planner-")
        assert second.process.poll() is None
        with start_terminal_user(BLUEFLAME, project, "attach", "plan", rows=40, columns=120) as third:
            third.expect(b"Connected to planner-")
            third.expect(b"agree")
            say(third, b"/exit")
            third.expect(b"has ended")
            assert third.end() == 0
            assert third.modes == third.modes_before
        second.expect(b"(q)uit?")
        second.type(b"q\n")
        second.end()
        assert second.modes == second.modes_before
    assert attempt_of(project)["ending"] == "passed"
