"""A configuration that reaches beyond the sandbox is used only after a person agreed: `blueflame trust`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.config.detect.choose_commands import CommandChoice
from blueflame.config.detect.commands import Commands
from blueflame.orchestrator.lifecycle import lock_project, open_session
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.trust import list_untrusted
from support.command_line import YES, at_terminal, configure, here, write

HOOK = {"hooks": {"post_plan": "./tools/hook"}}


@pytest.fixture
def clone(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a hook of a stranger."""
    configure(repo, HOOK, trusted=False)
    monkeypatch.chdir(repo)
    return repo


def is_trusted(repo: Path) -> bool:
    return not list_untrusted(open_project(repo / "blueflame.yaml"))


@pytest.mark.parametrize(
    "argv",
    [
        ("run", "--task", "x"),
        ("run", "--task", "x", "--dry-run"),
        ("plan", "--task", "x"),
        ("resume",),
        ("undo", "cs-001", "--yes"),
        ("cleanup",),
        ("sandbox", "run", "--", "true"),
        ("trust",),
        ("trust", "--json"),
    ],
)
def test_without_a_terminal_it_is_refused_with_the_command_that_grants_it(
    clone: Path, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    said = here(capsys, *argv)
    assert said.code == 3
    assert 'hooks.post_plan "./tools/hook": runs a program outside of the sandbox' in said.err
    assert "`blueflame trust`" in said.err
    assert not (clone / ".blueflame").exists()
    assert not is_trusted(clone)


@pytest.mark.parametrize("argv", [("config", "check"), ("config", "show"), ("sandbox", "show"), ("policy", "explain")])
def test_commands_that_only_read_need_no_trust(
    clone: Path, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    assert here(capsys, *argv).code == 0
    assert not is_trusted(clone)


@pytest.mark.usefixtures("guards_are_known")
def test_doctor_reports_it_and_tries_nothing(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "doctor", "--json")
    assert said.code == 3
    (finding,) = [each for each in said.json["findings"] if each["name"] == "project"]
    assert "is not trusted on this machine" in finding["details"]
    assert not [each for each in said.json["findings"] if each["name"].startswith("runtime")]


def test_it_is_granted_once_and_asked_for_again_only_when_it_changes(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = here(capsys, "trust", "--yes")
    assert (said.code, said.out) == (
        0,
        'trusted: hooks.post_plan "./tools/hook": runs a program outside of the sandbox\n',
    )
    assert here(capsys, "trust").code == 0
    configure(clone, {"hooks": {"post_plan": "./tools/hook", "on_failure": "./tools/other"}}, trusted=False)
    shown = here(capsys, "trust", "--show", "--json")
    assert shown.code == 3
    assert [(each["key"], each["trusted"]) for each in shown.json["settings"]] == [
        ("hooks.post_plan", True),
        ("hooks.on_failure", False),
    ]
    refused = here(capsys, "run", "--task", "x")
    assert "./tools/other" in refused.err
    assert "./tools/hook" not in refused.err, "only what is new is shown"


def test_it_can_be_revoked(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here(capsys, "trust", "--yes")
    said = here(capsys, "trust", "--revoke")
    assert (said.code, said.out.split(":")[0]) == (0, "not trusted")
    assert not is_trusted(clone)


def test_a_harmless_configuration_asks_for_nothing(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(repo, trusted=False)
    monkeypatch.chdir(repo)
    said = here(capsys, "trust")
    assert (said.code, said.out) == (0, "nothing needs trust: no setting reaches beyond the sandbox\n")
    assert here(capsys, "trust", "--yes", "--show").code == 2


def test_at_a_terminal_it_is_asked_and_yes_is_remembered(clone: Path) -> None:
    with at_terminal("trust", cwd=clone) as terminal:
        assert "./tools/hook" in terminal.expect("Trust them on this machine? [y/N]:")
        terminal.type("\n")
        assert terminal.end() == 3
    assert not is_trusted(clone)
    with at_terminal("cleanup", cwd=clone) as terminal:
        terminal.expect("[y/N]:")
        terminal.type("y\n")
        terminal.end()
    assert is_trusted(clone)


def test_a_decisions_file_grants_nothing(clone: Path, tmp_path: Path) -> None:
    answers = write(tmp_path / "answers.json", YES)
    with at_terminal("run", "--task", "x", "--decisions-file", answers, cwd=clone) as terminal:
        assert terminal.end() == 3
        assert "[y/N]" not in terminal.seen
    assert not is_trusted(clone)


def test_init_trusts_what_it_writes_and_not_what_it_finds(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clone / "package-lock.json").write_text("{}")
    (clone / "package.json").write_text("{}")
    assert "exists: not changed" in here(capsys, "init", "--no-try").out
    assert not is_trusted(clone)
    assert here(capsys, "init", "--no-try", "--force").code == 0
    assert is_trusted(clone)
    (clone / ".worktreeinclude").write_text(".env\n")
    assert here(capsys, "init", "--no-try", "--force").code == 0
    assert not is_trusted(clone), "what agents get to see is another question"


def test_what_a_trial_changes_in_the_file_is_trusted_as_it_is_written(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    (repo / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    choice = CommandChoice(commands=Commands(setup=("true",), tests=("true",), registries=("crates",)))
    monkeypatch.setattr("blueflame.cli.commands.init._try_commands", lambda *_args, **_more: choice)
    assert "crates" in here(capsys, "init", "--json").json["registries"]
    assert is_trusted(repo)
    (repo / "conf").mkdir()
    (repo / "blueflame.yaml").rename(repo / "conf" / "flame.yaml")
    (repo / "blueflame.yaml").symlink_to("conf/flame.yaml")
    assert here(capsys, "init", "--force").code == 0
    assert is_trusted(repo), "by the name that it is found by"


@pytest.mark.parametrize("there", [False, True])
def test_init_writes_through_no_link_that_leaves_the_repository(
    clone: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, there: bool
) -> None:
    target = tmp_path / "profile"
    if there:
        target.write_text("mine\n")
    (clone / "blueflame.yaml").unlink()
    (clone / "blueflame.yaml").symlink_to(target)
    assert here(capsys, "init", "--no-try", "--force").code == 2
    assert target.exists() == there
    assert not there or target.read_text() == "mine\n"


def test_a_journal_that_the_repository_brings_is_not_resumed(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, git: Callable[..., str]
) -> None:
    """With an unfinished session, whose agents and settings would be a stranger's."""
    monkeypatch.chdir(repo)
    project = open_project(configure(repo))
    with lock_project(project) as journal:
        open_session(project, journal, request="x", allow_dirty=True)
    for folder in (".blueflame", ".trees"):
        shutil.rmtree(repo / folder / ".git", ignore_errors=True)
    git(repo, "add", "-Af")
    git(repo, "commit", "-q", "-m", "plant")
    for argv in (("resume",), ("run", "--task", "x"), ("run", "--task", "x", "--fresh"), ("undo", "cs-001", "--yes")):
        said = here(capsys, *argv)
        assert said.code == 3
        assert "git tracks files in .blueflame" in said.err


def test_a_file_that_is_named_is_trusted_by_its_own_name(
    clone: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here(capsys, "trust", "--yes")
    elsewhere = tmp_path / "their settings.yaml"
    settings = json.loads((clone / "blueflame.yaml").read_text())
    settings["project"]["repo"] = str(clone)
    elsewhere.write_text(json.dumps(settings))
    said = here(capsys, "run", "--task", "x", "--config", elsewhere)
    assert said.code == 3
    assert f"blueflame trust --config '{elsewhere}'" in said.err
    assert "project.repo" in said.err
