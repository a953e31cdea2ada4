from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.knowledge.proposals import MARK, add_lessons, choose_proposed, describe_evidence
from blueflame.model.memory import Lesson, Origin

GOOD = Lesson(key="wish:1", origin=Origin(session="ses-1", at=1.0), text="Run make quick", confirmed=True)


def lesson(text: str, **fields: object) -> Lesson:
    return replace(GOOD, key=f"wish:{text}", text=text, **fields)  # type: ignore[arg-type]  # tests name them


@pytest.mark.parametrize(
    "bad", [{"confirmed": False}, {"stale": True}, {"faded": True}, {"superseded_by": "wish:2"}], ids=str
)
def test_only_what_a_person_confirmed_and_still_holds_is_proposed(bad: dict[str, object]) -> None:
    assert choose_proposed([GOOD], "") == (GOOD,)
    assert choose_proposed([replace(GOOD, **bad)], "") == ()  # type: ignore[arg-type]


def test_what_the_file_says_already_is_not_proposed_again() -> None:
    assert choose_proposed([GOOD], "# Agents\n\n* run  MAKE quick\n") == ()


def test_the_most_helpful_comes_first() -> None:
    helpful = lesson("Helps", origin=Origin(session="ses-1", used=5, helped=4))
    assert choose_proposed([GOOD, helpful, lesson("run make QUICK")], "") == (helpful, lesson("run make QUICK"))


def test_lines_are_added_below_those_that_were_added_before() -> None:
    first = add_lessons("# Agents\n\nBe kind.", [GOOD])
    assert first == f"# Agents\n\nBe kind.\n\n## Lessons\n\n{MARK}\n- Run make quick\n"
    second = add_lessons(f"{first}\n## Style\n\n- short\n", [lesson("Read the log")])
    assert second == f"{first}- Read the log\n\n## Style\n\n- short\n"


def test_the_evidence_names_origin_and_effect() -> None:
    origin = Origin(session="ses-1", task="task-002", commit="c0ffee" * 6, files=("src/a.py",), used=3, helped=2)
    assert describe_evidence([replace(GOOD, origin=origin), GOOD]).splitlines() == [
        "- Run make quick (wish:1; from ses-1 task-002; commit c0ffeec0ffee; about src/a.py; given to 3 attempts, "
        "2 passed at once)",
        "- Run make quick (wish:1; from ses-1; not given to an attempt yet)",
    ]


texts = st.text(st.sampled_from("ab-#<> \n"), max_size=60)
pages = st.one_of(texts, st.builds(lambda before, after: f"{before}{MARK}{after}", texts, texts))
words = st.text(st.sampled_from("xyz {}`-"), min_size=1, max_size=12).filter(str.strip)


@given(pages, st.lists(words.map(lesson), min_size=1, max_size=4))
def test_no_word_of_a_person_is_changed_and_nothing_is_proposed_twice(text: str, lessons: list[Lesson]) -> None:
    changed = add_lessons(text, lessons)
    left = iter(changed.split())
    assert all(word in left for word in text.split()), "the words of the file are there, in their order"
    assert choose_proposed(lessons, changed) == ()
    assert len(changed.splitlines()) - len(text.splitlines()) <= len(lessons) + 5
