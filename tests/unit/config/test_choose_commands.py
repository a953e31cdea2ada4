"""Of what was tried, init writes what worked, and says why the rest did not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from blueflame.config.detect.choose_commands import (
    CommandChoice,
    TriedProject,
    choose_commands,
    choose_tried,
    describe_check,
    find_variant,
    is_good_enough,
    is_usable,
)
from blueflame.config.detect.commands import Candidate, Commands, ProjectCommands
from blueflame.config.detect.repository import Survey
from blueflame.config.load import parse_config
from blueflame.config.scaffold import build_config_text
from blueflame.model.verdict import Check

CANDIDATE = Candidate(setup=("npm ci",), tests=("npm test",))
PROJECT = ProjectCommands(candidates=(CANDIDATE,), lints=("npm run lint",), registries=("npm",))


def check(name: str, exit_code: int = 0, *failures: str, output: str = "", timed_out: bool = False) -> Check:
    return Check(name=name, exit_code=exit_code, seconds=900.0, failures=failures, output=output, timed_out=timed_out)


def tried(*checks: Check) -> TriedProject:
    return TriedProject(project=PROJECT, candidate=CANDIDATE, checks=checks)


def test_what_is_green_is_written() -> None:
    choice = choose_commands([tried(check("npm test"), check("npm run lint"))])
    assert choice.commands == Commands(
        tests=("npm test",), lints=("npm run lint",), setup=("npm ci",), registries=("npm",)
    )
    assert choice.left_out == ()


def test_tests_that_ran_and_are_red_stay_and_a_red_linter_does_not() -> None:
    choice = choose_commands(
        [tried(check("npm test", 1, "a", "b"), check("npm run lint", 1, output="x\n2 errors\n\n"))]
    )
    assert choice.commands.checks == ("npm test",)
    assert choice.describe_red("npm test") == "2 tests fail: a, b"
    assert [(left.command, left.reason) for left in choice.left_out] == [("npm run lint", "exit 1: 2 errors")]
    assert [each.name for each in choice.checks] == ["npm test"]


def test_the_reason_is_what_failed_and_not_what_ran_it() -> None:
    output = "a.c:1: unknown type\nmake[1]: *** [a.o] Error 1\nmake: *** [Makefile:145: test] Error 2\n"
    assert describe_check(check("make test", 2, output=output)) == "exit 2: a.c:1: unknown type"
    assert describe_check(check("make test", 2, output="make: *** No rule\n")) == "exit 2: make: *** No rule"
    assert describe_check(check("make test", 2)) == "exit 2: no output"
    large = describe_check(check("make test", 2, output="huge\nmake[1]: *** [Makefile:262: huge] Error 153\n"))
    assert large == "exit 2: huge; it wrote a larger file than sandbox.max_file_size_mb allows"


def test_a_line_without_a_word_is_no_reason() -> None:
    output = "package.json is out of date\n\n-------------------\n"
    assert describe_check(check("npm run lint", 1, output=output)) == "exit 1: package.json is out of date"
    assert describe_check(check("npm run lint", 1, output="-----\n")) == "exit 1: no output"


def test_a_program_that_is_missing_is_the_reason_and_not_what_follows() -> None:
    output = "test.sh: line 232: shellcheck: command not found\nrm: cannot remove 'a': No such file or directory\n"
    assert describe_check(check("bash test.sh", 1, output=output)) == (
        "exit 1: test.sh: line 232: shellcheck: command not found; install the program it needs"
    )


def test_what_the_gateway_refused_is_explained() -> None:
    cargo = "[56] Failure when receiving data from the peer (CONNECT tunnel failed, response 502)\n"
    assert describe_check(check("cargo fetch", 101, output=cargo)).endswith("; a registry cannot be reached from here")
    pip = "ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden'))\n"
    assert describe_check(check("pip install", 1, output=pip)).endswith("worktree.registries does not name")


def test_a_setup_that_fails_leaves_out_what_needs_it() -> None:
    choice = choose_commands([tried(check("npm ci", 127, output="sh: npm: not found"))])
    assert choice.commands == Commands()
    assert [(left.command, left.reason, left.setup) for left in choice.left_out] == [
        ("npm ci", "exit 127: sh: npm: not found; install the program it needs", True),
        ("npm test", "its setup failed", False),
        ("npm run lint", "its setup failed", False),
    ]


def test_tests_that_did_not_run_or_took_too_long_are_left_out_and_the_setup_that_worked_stays() -> None:
    for red in (check("npm test", 1, output="Cannot find module"), check("npm test", 1, "a", timed_out=True)):
        ended = tried(red, check("npm run lint"))
        assert not is_usable(ended)
        choice = choose_commands([ended])
        assert choice.commands == Commands(lints=("npm run lint",), setup=("npm ci",), registries=("npm",))
        assert [(left.command, left.setup) for left in choice.left_out] == [("npm test", False)]
        assert [each.name for each in choice.checks] == ["npm run lint"]


def test_files_that_the_checks_leave_are_a_comment() -> None:
    ended = TriedProject(project=PROJECT, candidate=CANDIDATE, checks=(check("npm test"),), left_behind=("a.log", "b"))
    text = build_config_text(build_survey(), choice=choose_commands([ended]))
    assert "      # the checks change or add files that git does not ignore: a.log, b\n" in text


def test_tests_that_pytest_did_not_run_for_an_import_are_run_without_it() -> None:
    candidate = Candidate(setup=("setup",), tests=("python -m pytest -q",))
    output = "ERROR tests/test_a.py\n!!!!! Interrupted: 1 error during collection !!!!!\n"
    red = check("python -m pytest -q", 2, "tests/test_a.py", output=output)
    ended = TriedProject(project=ProjectCommands(), candidate=candidate, checks=(red,))
    assert not is_usable(ended)
    other = find_variant(ended)
    assert other == Candidate(setup=("setup",), tests=("python -m pytest -q --continue-on-collection-errors",))
    still = TriedProject(project=ProjectCommands(), candidate=other, checks=(replace(red, name=other.tests[0]),))
    assert find_variant(still) is None


def test_tests_that_leave_files_are_run_in_a_copy_once_unless_they_need_a_setup() -> None:
    ended = TriedProject(
        project=PROJECT, candidate=Candidate(tests=("make",)), checks=(check("make"),), left_behind=("a",)
    )
    copied = find_variant(ended)
    assert copied is not None
    assert copied.tests[0].endswith(" && make")
    again = replace(ended, candidate=copied, checks=(check(copied.tests[0]),))
    assert find_variant(again) is None
    assert find_variant(replace(ended, candidate=CANDIDATE, checks=(check("npm test"),))) is None


def test_tests_that_were_passed_over_are_a_comment_too() -> None:
    whole = tried(check("npm test", 1, output="lint"))
    parts = replace(whole, candidate=Candidate(setup=("npm ci",), tests=("npx ava",)), checks=(check("npx ava"),))
    choice = choose_commands([choose_tried([whole, parts])])
    assert choice.commands.tests == ("npx ava",)
    assert [(left.command, left.reason) for left in choice.left_out] == [("npm test", "exit 1: lint")]
    assert choose_tried([whole, whole]) == whole


def test_many_failures_are_a_reason_to_try_another_way() -> None:
    many = tried(check("npm test", 1, *(f"test {n}" for n in range(9))), check("npm run lint"))
    assert is_usable(many)
    assert not is_good_enough(many)
    assert not is_good_enough(replace(many, checks=(replace(many.checks[0], tests=400),)))
    assert is_good_enough(replace(many, checks=(replace(many.checks[0], tests=900),))), "nine of 900 are few"


def test_the_file_has_what_worked_and_comments_for_the_rest() -> None:
    choice = choose_commands([tried(check("npm test", 1, "a # b"), check("npm run lint", 2, output='say: "no"\n'))])
    text = build_config_text(build_survey(), choice=choice)
    settings = parse_config(text, path=Path("blueflame.yaml")).settings
    assert settings.validation.validator_diagnostics.commands == ("npm test",)
    assert (settings.worktree.setup, settings.worktree.registries) == (("npm ci",), ("npm",))
    assert "      # red on main, 1 test fails: a # b\n" in text
    assert '      # - "npm run lint"  # exit 2: say: "no"\n' in text


def test_a_file_without_anything_that_works_is_valid() -> None:
    choice = choose_commands([tried(check("npm ci", 1, output="no network\n"))])
    text = build_config_text(build_survey(), choice=choice)
    settings = parse_config(text, path=Path("blueflame.yaml")).settings
    assert (settings.worktree.setup, settings.validation.validator_diagnostics.commands) == ((), ())
    assert '# - "npm ci"  # exit 1: no network' in text
    assert build_config_text(build_survey(), choice=CommandChoice(commands=Commands()))


def build_survey() -> Survey:
    return Survey(
        repo=Path("/r"),
        name="r",
        base_branch="main",
        languages=("javascript",),
        folders=("src",),
        other_folders=(),
        root_suffixes=(),
        root_names=(),
        sources=("src/a.js",),
        test_files=(),
        manifests=(),
        secret_files=(),
        projects=(PROJECT,),
    )
