"""Setup and checks are tried in the real sandbox, on the base commit, and the result is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.config.detect.commands import Candidate, ProjectCommands
from blueflame.git.command import run_git
from blueflame.git.merge import digest_tree_without
from blueflame.model.verdict import Check
from blueflame.orchestrator.baseline import BaselineFile, BaselineKey, describe_baseline, digest_commands
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.try_commands import try_projects, try_settings
from support.command_line import configure


@pytest.fixture
def lines() -> list[str]:
    return []


def test_the_first_candidate_that_works_is_chosen_and_nothing_is_left(repo: Path, lines: list[str]) -> None:
    project = open_configured(repo)
    found = ProjectCommands(
        candidates=(
            Candidate(setup=("false",), tests=("true",)),
            Candidate(setup=("touch ~/ready && touch made",), tests=("test -e ~/ready && test -e made",)),
            Candidate(tests=("true",)),
        ),
        lints=("exit 3",),
    )

    def report(line: str, check: Check | None) -> None:
        lines.append(f"{line} {'' if check is None else check.exit_code}".strip())

    choice = try_projects(project, [found], report)

    assert choice.commands.setup == ("touch ~/ready && touch made",)
    assert choice.commands.checks == ("test -e ~/ready && test -e made",)
    assert [left.command for left in choice.left_out] == ["exit 3"]
    assert lines[:4] == ["false", "false 1", "touch ~/ready && touch made", "touch ~/ready && touch made 0"]
    assert not list(project.paths.attempts.iterdir())
    assert not [each for each in project.paths.worktrees.iterdir() if "try" in each.name]
    assert not (repo / "made").exists()


def test_tests_that_change_tracked_files_run_in_a_copy(repo: Path) -> None:
    project = open_configured(repo)
    build = "echo x >> README.md && touch built"
    seen: list[str] = []
    found = ProjectCommands(candidates=(Candidate(tests=(build,)),))
    choice = try_projects(project, [found], lambda line, _check: seen.append(line))

    assert choice.commands.tests == (f"rm -rf /tmp/copy && cp -a . /tmp/copy && cd /tmp/copy && {build}",)
    assert choice.left_behind == ()
    assert set(seen) == {build, *choice.commands.tests}


def test_what_checks_leave_after_a_setup_is_reported(repo: Path) -> None:
    found = ProjectCommands(candidates=(Candidate(setup=("touch installed",), tests=("touch 'my report'",)),))
    choice = try_projects(open_configured(repo), [found], lambda _line, _check: None)
    assert choice.left_behind == ('"my report"',)


def test_a_red_base_is_known_from_then_on_and_a_green_one_is_no_reason_to_warn(repo: Path) -> None:
    red = open_configured(repo, "echo 'FAILED tests/test_a.py::test_b'; exit 1")
    assert "never tried" in describe_baseline(red.paths.baseline, red.settings)
    (check,) = try_settings(red, lambda _line, _check: None)
    assert check.failures == ("tests/test_a.py::test_b",)
    assert "red on the base" in describe_baseline(red.paths.baseline, red.settings)

    green = open_configured(repo, "true")
    assert "never tried" in describe_baseline(green.paths.baseline, green.settings), "these are other commands"
    try_settings(green, lambda _line, _check: None)
    assert describe_baseline(green.paths.baseline, green.settings) == ""


def test_what_was_tried_counts_for_the_commit_that_adds_the_configuration(repo: Path) -> None:
    project = open_configured(repo, "true")
    try_settings(project, lambda _line, _check: None)
    run_git(repo, "add", "blueflame.yaml")
    run_git(repo, "commit", "-q", "-m", "chore: add the configuration")
    alike = Project(project.config)
    tree = digest_tree_without(alike.repo, alike.repo.base_sha, "blueflame.yaml")
    key = BaselineKey(tree=tree, commands=digest_commands(alike.settings))
    assert BaselineFile(alike.paths.baseline).find(key)
    (repo / "more.py").write_text("")
    run_git(repo, "add", "more.py")
    run_git(repo, "commit", "-q", "-m", "feat: add more")
    other = Project(project.config)
    assert digest_tree_without(other.repo, other.repo.base_sha, "blueflame.yaml") != tree


def open_configured(repo: Path, *commands: str) -> Project:
    path = configure(repo, {"validation": {"validator_diagnostics": {"commands": list(commands)}}})
    return Project(path)
