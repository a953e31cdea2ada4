from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.text.commit_style import detect_commit_style, find_ticket, format_subject

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


def test_the_newest_subjects_are_shown_as_examples() -> None:
    style = detect_commit_style(["fix: d", "Merge branch x", "feat: c", "feat: b", "feat: a"])
    assert style.examples == ("fix: d", "feat: c", "feat: b")


@given(st.lists(st.text()), st.text(min_size=1))
def test_any_history_and_any_title_give_one_line(history: list[str], title: str) -> None:
    assert len(format_subject(detect_commit_style(history), title).splitlines()) <= 1
