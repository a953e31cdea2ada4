from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.text.commit_style import (
    PLAIN,
    SubjectRule,
    detect_commit_style,
    find_ticket,
    fit_subject,
    format_subject,
    reword_message,
)

HISTORIES = {
    "angular": (["feat(router): add a guard", "fix(core): stop a leak", "docs(api): explain it"], "fix(auth): stop it"),
    "conventional": (["feat: add a guard", "fix: stop a leak", "Merge pull request #3 from x/y"], "fix: stop it"),
    "tasks as scopes": (["feat(task-001): add a guard", "fix(task-002): stop a leak"], "fix: stop it"),
    "plain": (["Add a guard", "Stop a leak (#12)", "Explain it"], "Stop it"),
    "django": (["Fixed #123 -- Stopped a leak.", "Refs #9 -- Added a guard.", "Fixed typo."], "Stop it."),
    "go": (["net/http: stop a leak", "cmd/go: add a guard", "all: explain it"], "auth: stop it"),
    "tickets": (["ABC-1: Add a guard", "ABC-2: Stop a leak"], "ABC-77: Stop it"),
    "tickets in brackets": (["[ABC-1] Add a guard", "[XY-2] Stop a leak"], "[ABC-77] Stop it"),
    "small letters": (["add a guard", "stop a leak"], "stop it"),
    "nothing yet": ([], "Stop it"),
    "mixed": (["feat: add a guard", "Stop a leak", "Explain it", "fix: it", "Remove it"], "Stop it"),
}


@pytest.mark.parametrize(("history", "subject"), HISTORIES.values(), ids=HISTORIES.keys())
def test_a_subject_reads_like_those_before_it(history: list[str], subject: str) -> None:
    style = detect_commit_style(history)
    assert format_subject(style, "Stop it", written="fix(task-001): x", scope="auth", ticket="ABC-77") == subject


def test_the_type_comes_from_the_title_when_the_agent_wrote_none() -> None:
    style = detect_commit_style(["feat: add a guard", "fix: stop a leak"])
    assert format_subject(style, "Fix the leak.") == "fix: fix the leak"
    assert format_subject(style, "Answer 401") == "feat: answer 401"


def test_names_keep_their_letters() -> None:
    style = detect_commit_style(["add a guard"])
    for name in ("JWT middleware", "parse_lock takes a path"):
        assert format_subject(style, name) == name


def test_without_a_ticket_there_is_no_empty_prefix() -> None:
    assert format_subject(detect_commit_style(["ABC-1: Add a guard"]), "Stop it") == "Stop it"
    assert find_ticket("do ABC-12, then XY-3") == "ABC-12"
    assert find_ticket("nothing here") == ""
    assert find_ticket("nothing here", "Close XY-3") == "XY-3"


def test_the_newest_subjects_are_shown_as_examples() -> None:
    style = detect_commit_style(["fix: d", "Merge branch x", "feat: c", "feat: b", "feat: a"])
    assert style.examples == ("fix: d", "feat: c", "feat: b")


@given(st.lists(st.text()), st.text(min_size=1))
def test_any_history_and_any_title_give_one_line(history: list[str], title: str) -> None:
    assert len(format_subject(detect_commit_style(history), title).splitlines()) <= 1


TASKS = r"^(feat|fix|docs)\(task-\d+(,\s*task-\d+)*\): .+"
PATTERNS: dict[str, tuple[SubjectRule, str, str]] = {
    "task ids": (SubjectRule(pattern=TASKS, tasks="task-003"), "wip", "feat(task-003): wip"),
    "its own type": (SubjectRule(pattern=TASKS, tasks="task-003"), "docs: say it", "docs(task-003): say it"),
    "conventional": (SubjectRule(pattern=r"^(feat|fix)(\(\w+\))?: .+"), "Fix the leak", "fix: Fix the leak"),
    "a small letter": (SubjectRule(pattern=r"^(feat|fix): [a-z].*[^.]$"), "Add a guard.", "feat: add a guard"),
    "a capital": (SubjectRule(pattern=r"^[A-Z][^:]*$"), "feat(task-001): add a guard", "Add a guard"),
    "a short line": (SubjectRule(pattern=r"^.{1,50}$"), "Add a guard " + "very " * 20, "Add a guard" + " very" * 7),
    "a ticket": (SubjectRule(pattern=r"^ABC-\d+: ", ticket="ABC-7"), "Add a guard", "ABC-7: Add a guard"),
    "an example": (
        SubjectRule(pattern=r"^\* ABC-\d+ \| .+", example="* ABC-1 | do it", ticket="ABC-7"),
        "Add a guard",
        "* ABC-7 | Add a guard",
    ),
    "no words": (SubjectRule(pattern=TASKS, tasks="task-003", title="Add a guard"), "", "feat(task-003): Add a guard"),
    "too long": (SubjectRule(pattern=r"^(a+)+$"), "a" * 40_000, "a" * 400),
}


@pytest.mark.parametrize(("rule", "written", "fitted"), PATTERNS.values(), ids=PATTERNS.keys())
def test_a_subject_is_reworded_to_match_a_pattern(rule: SubjectRule, written: str, fitted: str) -> None:
    assert not rule.is_kept(written)
    assert fit_subject(rule, written) == fitted
    assert fit_subject(rule, fitted) == fitted


def test_the_type_comes_from_the_title_of_the_task_when_the_words_have_none() -> None:
    style = detect_commit_style(["feat: add a guard", "fix: stop a leak"])
    assert fit_subject(SubjectRule(style=style, title="Explain it"), "Add a page") == "docs: add a page"
    assert fit_subject(SubjectRule(style=style, title="Explain it"), "Fix a page") == "fix: fix a page"


def test_a_ticket_of_the_example_is_never_made_up() -> None:
    rule = SubjectRule(pattern=r"^ABC-\d+: ", example="ABC-1: do it")
    assert fit_subject(rule, "Add a guard") == "Add a guard"


@pytest.mark.parametrize(
    ("history", "written", "fitted"),
    [
        (["feat: add a guard", "fix: stop a leak"], "Document it", "docs: document it"),
        (["feat: add a guard", "fix: stop a leak"], "feat(task-003): Rank words", "feat: rank words"),
        (["feat: add a guard", "fix: stop a leak"], 'Revert "x"', 'Revert "x"'),
        (["Add a guard", "Stop a leak"], "feat(task-003): rank words", "Rank words"),
        (["Add a guard", "Stop a leak"], "feat: rank words", "feat: rank words"),
        (["ABC-1: Add a guard"], "Rank words", "Rank words"),
    ],
)
def test_without_a_pattern_the_style_of_the_history_counts(history: list[str], written: str, fitted: str) -> None:
    assert fit_subject(SubjectRule(style=detect_commit_style(history)), written) == fitted


def test_a_reworded_message_keeps_its_words_and_its_body() -> None:
    rule = SubjectRule(pattern=r"^(feat|fix): .+")
    body = "\n\nWhy.\n\nSigned-off-by: A <a@b>\n"
    assert reword_message(rule, f"fix: it{body}") == f"fix: it{body}"
    assert reword_message(rule, f"Stop\nit{body}") == f"feat: Stop it{body}"
    short = SubjectRule(pattern=r"^.{1,50}$")
    assert reword_message(short, "Add" + " very" * 20) == "Add" + " very" * 9 + "\n\nAdd" + " very" * 20 + "\n"


@given(st.text(), st.sampled_from([rule for rule, _, _ in PATTERNS.values()]))
def test_a_reworded_line_is_one_line_and_stays(written: str, rule: SubjectRule) -> None:
    subject = " ".join(written.split())
    fitted = fit_subject(rule, subject)
    assert len(fitted.splitlines()) <= 1
    assert fit_subject(rule, fitted) == fitted


def test_in_a_mixed_history_a_plain_line_is_written_like_the_other_plain_ones() -> None:
    subjects = ["fix: keep it", "Reject a comment", "chore(deps): bump it", "Keep the table", "raise on it"]
    style = detect_commit_style(subjects)
    assert (style.kind, style.capital, style.examples) == (
        *(PLAIN, True),
        ("Reject a comment", "Keep the table", "raise on it"),
    )
