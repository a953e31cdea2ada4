"""The format of knowledge files: what is written is read back, and what a person wrote stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.knowledge.edits import assign_keys
from blueflame.knowledge.page import KnowledgePage, UnreadablePage, build_page, parse_page, render_page, update_page
from blueflame.model.memory import BY_HAND, Lesson, Source
from support.lessons import MISTAKES, in_file, learned, lessons, texts

HEAD = "---\nknowledge: mistakes\ntokens: 1000\n---\n\n# Mistakes\n\n"
END = "<!-- end of mistakes -->\n"
ONE = learned("fix:ses-1:task-002", "Never run the migrations twice.", files=("src/db.py",), symbols=("migrate",))


def read(text: str) -> KnowledgePage:
    page = parse_page(text, MISTAKES)
    assert isinstance(page, KnowledgePage), page
    return page


def test_an_entry_is_a_bullet_with_its_words_and_a_comment_with_its_origin() -> None:
    text = render_page(update_page(build_page(MISTAKES), [ONE]))
    assert text.startswith(HEAD)
    assert text.endswith(
        "- Never run the migrations twice.\n"
        "  <!-- id: fix:ses-1:task-002; about: mistake; by: agent; session: ses-1; commit: c0ffee; date: 1970-01-02; "
        "files: src/db.py; symbols: migrate -->\n\n" + END
    )
    assert read(text).lessons == (ONE,)


many = st.lists(lessons.map(lambda each: in_file(each, MISTAKES)), max_size=4, unique_by=lambda each: each.key)


@given(many)
def test_what_is_written_is_read_back(given_: Sequence[Lesson]) -> None:
    page = update_page(build_page(MISTAKES), given_)
    text = render_page(page)
    again = read(text)
    assert again.lessons == tuple(given_)
    assert render_page(again) == text
    assert render_page(update_page(again, given_)) == text
    assert not again.problems
    assert again.complete


@given(many, many)
def test_entries_come_and_go_without_a_trace(first: Sequence[Lesson], second: Sequence[Lesson]) -> None:
    one = render_page(update_page(build_page(MISTAKES), first))
    two = render_page(update_page(read(one), second))
    assert set(read(two).lessons) == set(second)
    assert render_page(update_page(read(two), ())) == render_page(build_page(MISTAKES))


LINES = st.lists(st.one_of(texts, st.just(""), st.just("- a\n  <!-- id: k -->"), st.just("  more")), max_size=8)


@given(LINES.map("\n".join))
def test_a_file_is_rendered_as_it_was_read_whatever_a_person_wrote(text: str) -> None:
    page = parse_page(text, MISTAKES)
    if isinstance(page, KnowledgePage):
        assert render_page(page) == text.replace("\r\n", "\n").replace("\n", page.newline)


@given(LINES.map("\n".join), many)
def test_a_new_entry_leaves_every_line_of_a_person_in_its_order(text: str, new: Sequence[Lesson]) -> None:
    page = parse_page(text, MISTAKES)
    if isinstance(page, KnowledgePage):
        (page,) = assign_keys([page])
        here = {block.key for block in page.blocks}
        added = [each for each in new if each.key not in here]
        after = render_page(update_page(page, [*page.lessons, *added]))
        words = iter(after.split(page.newline))
        assert all(line in words for line in text.replace("\r\n", "\n").split("\n") if "<!-- id:" not in line)


def test_text_without_an_id_is_a_persons_bullet_or_paragraph() -> None:
    page = read(HEAD + "- One.\n  Two.\n\n  - three\n\nA paragraph\nof two lines.\n\n" + END)
    assert [each.text for each in page.lessons] == ["One.\nTwo.\n\n- three", "A paragraph\nof two lines."]
    assert all(each.confirmed and each.origin.source is Source.PERSON for each in page.lessons)
    assert {each.origin.session for each in page.lessons} == {BY_HAND}


def test_words_after_the_comment_belong_to_the_entry() -> None:
    page = read(HEAD + "- One.\n  <!-- id: k; by: agent -->\n  Two.\n" + END)
    assert [(each.key, each.text) for each in page.lessons] == [("k", "One.\nTwo.")]


def test_the_essential_section_is_no_entry_and_ends_with_the_next_heading() -> None:
    page = read(
        HEAD + "## Essential\n\n- Deploys are frozen on Fridays.\n\n### Why\n\nHistory.\n\n## More\n- x\n" + END
    )
    assert page.essential == "- Deploys are frozen on Fridays.\n\n### Why\n\nHistory."
    assert [each.text for each in page.lessons] == ["x"]
    assert "Fridays" in render_page(update_page(page, ()))


def test_a_persons_budget_counts() -> None:
    assert read("---\ntokens: 1500\n---\n- x\n").file.tokens == 1500


def test_a_file_with_dos_line_ends_keeps_them() -> None:
    text = (HEAD + "- x\n" + END).replace("\n", "\r\n")
    after = render_page(update_page(read(text), [replace(ONE, key="a"), *read(text).lessons]))
    assert after.count("\n") == after.count("\r\n") > text.count("\r\n")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("---\nknowledge: mistakes\n- x\n", 1, "has no end"),
        ("---\nwhat is this\n---\n", 2, "is not `name: value`"),
        ("---\ntokens: many\n---\n", 2, "write a number"),
        ("---\ntokens: 99999999999\n---\n", 2, "write a number"),
        ("---\nknowledge: patterns\n---\n", 2, "the file is that of 'mistakes'"),
        ("- x\n\n<!-- a comment\n- y\n", 3, "close it with -->"),
        ("- x\n\n```sh\nmake\n", 3, "close it with ```"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_with_its_line(text: str, line: int, words: str) -> None:
    page = parse_page(text, MISTAKES)
    assert isinstance(page, UnreadablePage)
    assert page.problem.line == line
    assert words in page.problem.text


@pytest.mark.parametrize(
    ("entry", "line", "words"),
    [
        ("- x\n  <!-- id: k; by: the king -->\n", 9, "is not known: use agent"),
        ("- x\n  <!-- id: k; date: yesterday -->\n", 9, "write it as 2026-11-17"),
        ("- x\n  <!-- id: ; by: agent -->\n", 9, "the id is empty"),
        ("- x\n  <!-- id: k -->\n  <!-- id: l -->\n", 10, "two ids"),
        ("<!-- id: k -->\n", 8, "an id without words"),
    ],
)
def test_an_entry_that_cannot_be_read_stays_and_the_others_are_read(entry: str, line: int, words: str) -> None:
    page = read(HEAD + entry + "\n- fine\n" + END)
    (problem,) = page.problems
    assert words in problem.text
    assert problem.line in (line, line - 1)
    assert [each.text for each in page.lessons] == ["fine"]
    assert entry in render_page(update_page(page, ()))


def test_contradictions_are_put_side_by_side_and_marked() -> None:
    a, b, c = (learned(key, f"word {key}") for key in "abc")
    page = read(render_page(update_page(build_page(MISTAKES), [a, b, c])))
    after = update_page(page, [a, b, c], {"a": ("c",), "c": ("a",)})
    assert [each.key for each in after.lessons] == ["a", "c", "b"]
    assert render_page(after).count("contradicts: ") == 2
    assert read(render_page(after)).lessons == (a, c, b)
    mine = replace(c, confirmed=True)
    page = read(render_page(update_page(build_page(MISTAKES), [a, b, mine])))
    assert [each.key for each in update_page(page, [a, b, mine], {"a": ("c",), "c": ("a",)}).lessons] == ["b", "c", "a"]
