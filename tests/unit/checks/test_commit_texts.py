"""Whose a commit is: the headers and the trailers of its message."""

from __future__ import annotations

import pytest

from blueflame.checks.commit_texts import check_identities, check_messages
from blueflame.model.changes import Commit

AGENT, PERSON = "worker-1 <worker-1@agents.invalid>", "Ада Лавлейс <ada@example.org>"


def commit(author: str = PERSON, committer: str = AGENT, message: str = "Add a thing", more: str = "") -> Commit:
    headers = f"tree 0\nparent 0\nauthor {author} 1700000000 +0100\ncommitter {committer} 1700000000 +0100\n{more}"
    return Commit(sha="c0ffee", author=author, subject="Add a thing", message=message, headers=headers)


def find_foreign(*commits: Commit) -> list[str]:
    return [found.detail for found in check_identities(commits, (AGENT, PERSON))]


def test_commits_of_the_agent_and_of_the_person_are_fine() -> None:
    assert find_foreign(commit(), commit(AGENT, AGENT), commit(PERSON, PERSON)) == []


def test_a_later_attempt_builds_on_the_commits_of_an_earlier() -> None:
    earlier = "worker-9 <worker-9@agents.invalid>"
    assert find_foreign(commit(PERSON, earlier)) == []
    assert find_foreign(commit("Linus <worker-9@agents.invalid>")) != []


def test_a_name_is_compared_as_git_stores_it() -> None:
    written = [" Ada, Jr. <ada@example.org>"]
    stored = commit("Ada, Jr <ada@example.org>", "Ada, Jr <ada@example.org>")
    assert list(check_identities([stored], written)) == []


@pytest.mark.parametrize("other", ["Ада Лавлейс <a@example.org>", "Ada <ada@example.org>", " <>"])
def test_another_author_or_committer_is_found(other: str) -> None:
    assert [text.split(";")[0] for text in find_foreign(commit(author=other))] == [f"the author is {other!r}"]
    assert [text.split(";")[0] for text in find_foreign(commit(committer=other))] == [f"the committer is {other!r}"]


@pytest.mark.parametrize(
    ("line", "known"),
    [
        (f"Signed-off-by: {PERSON}", True),
        (f"Signed-off-by: {AGENT}", True),
        ("Co-Authored-By: Claude <noreply@anthropic.com>", True),
        ("Fixes: Linus <l@example.org>", True),
        ("Signed-off-by: Claude <noreply@anthropic.com>", False),
        ("Signed-off-by: Linus <l@example.org>", False),
        ("signed-off-by :Linus", False),
        ("Co-authored-by: Linus <1+linus@users.noreply.github.com>", False),
        ("  Acked-by: Linus <l@example.org>", False),
    ],
)
def test_trailers_speak_for_the_agent_and_the_person_only(line: str, known: bool) -> None:
    assert (find_foreign(commit(message=f"Add a thing\n\n{line}\n")) == []) is known


@pytest.mark.parametrize("encoding", ["UTF-8", "utf8"])
def test_utf_8_may_be_named(encoding: str) -> None:
    assert list(check_messages([commit(more=f"encoding {encoding}\n")])) == []


@pytest.mark.parametrize(
    "more", ["encoding UTF-7\n", "encoding UTF-8//x\n", "x-note a\u202eb\n", f"x-note {'x' * 50_001}\n"]
)
def test_headers_that_are_not_shown_as_they_are_are_unsafe(more: str) -> None:
    assert [found.rule for found in check_messages([commit(more=more)])] == ["unsafe_message"]


def test_the_form_of_an_emoji_and_of_an_ideograph_may_be_chosen() -> None:
    assert list(check_messages([commit(message="Warn ⚠️ 葛\U000e0100城 👩‍💻")])) == []
