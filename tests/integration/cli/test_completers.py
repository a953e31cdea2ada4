"""What a shell completes for arguments that name something of a session."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from blueflame.cli.completers import complete_names
from blueflame.cli.main import blueflame
from blueflame.journal.journal import Journal
from support.command_line import configure
from support.recorded_session import ID, Story


def complete(*words: str) -> list[str]:
    *before, incomplete = words
    shell = BashComplete(blueflame, {}, "blueflame", "_BLUEFLAME_COMPLETE")
    return [item.value for item in shell.get_completions(list(before), incomplete)]


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that asks about its first changeset."""
    configure(repo)
    monkeypatch.chdir(repo)
    (repo / ".blueflame").mkdir()
    with Journal.open(repo / ".blueflame" / "journal.db") as journal:
        for each in Story().reviewing().recorded:
            journal.append(ID, each.seq - 1, [each.event], each.at)
    return repo


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["status", ""], [ID]),
        (["log", ID[:6]], [ID]),
        (["undo", "-s", ""], [ID]),
        (["answer", "ch"], ["changeset-cs-1-auth"]),
        (["answer", "changeset-cs-1-auth", "a"], ["approve"]),
        (["show", "task-"], ["task-001", "task-002", "task-003"]),
        (["diff", "cs-1-au"], ["cs-1-auth"]),
        (["add", "x", "--after", "task-002"], ["task-002"]),
        (["fix", ""], ["cs-1-auth", "cs-1-api", "task-001", "task-002", "task-003"]),
        (["kill", ""], []),
        (["retry", ""], []),
        (["undo", ""], []),
        (["help", "tuto"], ["tutorial"]),
    ],
    ids=" ".join,
)
def test_names_of_the_session_are_completed(words: list[str], found: list[str]) -> None:
    assert complete(*words) == found


def test_without_a_session_or_a_configuration_nothing_is_completed(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (repo, tmp_path):
        monkeypatch.chdir(folder)
        assert complete("status", "") == complete("show", "t") == []


def test_what_an_agent_wrote_reaches_no_shell_raw() -> None:
    completer = complete_names(lambda _context: iter([("task-001", "a\x1b[2J\ntitle")]))
    context = click.Context(blueflame)
    (item,) = completer(context, blueflame.params[0], "task")
    assert item.help
    assert item.help.isprintable()
