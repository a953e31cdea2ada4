"""Decisions from the shell of an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.cli.agent_shell import AGENT_SHELLS
from support.command_line import YES, at_terminal, configure, here, write


@pytest.fixture(autouse=True)
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


@pytest.mark.parametrize("mark", AGENT_SHELLS)
def test_an_agent_decides_nothing_from_its_shell(
    mark: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = write(project.parent / "yes.yaml", YES)
    monkeypatch.setenv(mark, "1")
    for words in (
        ("answer", "plan", "approve"),
        ("trust", "--yes"),
        ("run", "--task", "x", "--decisions-file", answers),
        ("resume", "--decisions-file", answers),
        ("run", "--task", "x", "--budget", "31"),
        ("undo", "cs-001", "--yes"),
    ):
        said = here(capsys, *words)
        assert said.code == 3, words
        assert f"{mark} is set" in said.err
    assert not (project / ".blueflame").exists()


def test_it_may_look(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    assert here(capsys, "trust", "--show").code == 0


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 3)])
def test_at_a_terminal_a_person_is_asked_whether_they_type_there(
    project: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    """Some agents run their commands in a terminal."""
    monkeypatch.setenv("CLAUDECODE", "1")
    with at_terminal("trust", "--yes", cwd=project) as terminal:
        terminal.expect("typing here?")
        terminal.type(typed)
        assert terminal.end() == code
