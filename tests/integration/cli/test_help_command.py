from __future__ import annotations

import pytest

from support.command_line import here


def test_pages_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "answer-gates" in here(capsys, "help").out
    assert here(capsys, "help", "answer-gates").out.startswith("# Answer gates")
    assert here(capsys, "help", "tutorial", "--json").json["name"] == "tutorial"
    names = [page["name"] for page in here(capsys, "help", "terminal", "--json").json["pages"]]
    assert "how-to/use-an-agents-terminal" in names


def test_a_command_is_explained_with_the_pages_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "help", "gates")
    assert said.out.startswith("Usage: blueflame gates")
    assert "blueflame help reference/gates" in said.out


def test_an_unknown_topic_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "help", "sandbx")
    assert said.code == 2
    assert "did you mean sandbox?" in said.err
