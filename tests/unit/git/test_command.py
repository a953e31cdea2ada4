"""Answers about objects are kept, answers about names are not."""

from __future__ import annotations

import pytest

from blueflame.git.command import remember_answers
from blueflame.model.errors import GitFailed

SHA = "a" * 40


def test_an_answer_about_an_object_is_asked_once() -> None:
    asked: list[str] = []

    @remember_answers(2)
    def read_object(sha: str) -> int:
        asked.append(sha)
        return len(asked)

    assert [read_object(SHA), read_object(SHA), read_object("b" * 64)] == [1, 1, 2]


@pytest.mark.parametrize("name", ["main", "HEAD", "refs/heads/main", SHA[:12], f"{SHA}~1"])
def test_an_answer_about_a_name_is_asked_every_time(name: str) -> None:
    asked: list[str] = []

    @remember_answers(2)
    def read_name(_repo: int, name: str) -> int:
        asked.append(name)
        return len(asked)

    assert [read_name(1, name), read_name(1, name)] == [1, 2]


def test_a_question_that_failed_is_asked_again() -> None:
    asked: list[str] = []

    @remember_answers(2)
    def read_late(sha: str) -> int:
        asked.append(sha)
        if len(asked) == 1:
            raise GitFailed(f"{sha} is not there yet")
        return len(asked)

    with pytest.raises(GitFailed):
        read_late(SHA)

    assert read_late(SHA) == 2
