"""Curation by rules: what leaves a file, what is marked, and what never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.knowledge.claims import contradicts, is_negative_claim, says_nearly_the_same
from blueflame.knowledge.curate import Curated, CurationRules, count_tokens, curate_lessons, is_kept, list_steps
from blueflame.model.memory import Lesson, Source, get_knowledge_file
from support.lessons import learned, lessons

RULES = CurationRules()


def reasons(found: Curated) -> dict[str, str]:
    return {each.key: each.archived for each in found.lessons if each.archived}


def curate(*given_: Lesson, rules: CurationRules = RULES, changes: Mapping[str, int] | None = None) -> Curated:
    return curate_lessons(given_, rules, changes)


# --- duplicates


def test_the_same_words_are_kept_once_and_their_subjects_are_joined() -> None:
    one = learned("a", "The clock is UTC.", files=("src/a.py",))
    two = learned("b", "the clock is  UTC", files=("src/b.py",), day=2)
    found = curate(one, two)
    assert reasons(found) == {"a": "duplicate"}
    assert found.lessons[0].superseded_by == "b"
    assert found.lessons[1].origin.files == ("src/b.py", "src/a.py")


def test_nearly_the_same_words_about_the_same_file_are_kept_once() -> None:
    words = "parser tokens need unique names because the cache compares them by name"
    one = learned("a", words, files=("src/a.py",))
    other = learned("b", f"{words} only", files=("src/a.py",), day=2)
    assert says_nearly_the_same(one, other)
    assert reasons(curate(one, other)) == {"a": "duplicate"}
    elsewhere = replace(other, origin=replace(other.origin, files=("src/b.py",)))
    assert reasons(curate(one, elsewhere)) == {}


def test_a_person_may_say_the_same_twice() -> None:
    found = curate(learned("a", "x y", confirmed=True), learned("b", "x y", confirmed=True))
    assert reasons(found) == {}


def test_what_a_person_said_at_two_gates_in_the_same_words_is_kept_once() -> None:
    said = [learned(f"wish:{n}", "No floats.", day=n, about="wish", files=(f"{n}.py",), confirmed=True) for n in (1, 2)]
    by_key = {each.key: each for each in curate_lessons(said, CurationRules()).lessons}
    assert (by_key["wish:1"].archived, by_key["wish:1"].superseded_by) == ("duplicate", "wish:2")
    assert (by_key["wish:2"].is_active, by_key["wish:2"].origin.files) == (True, ("2.py", "1.py"))
    other = replace(said[0], text="No floats, please.")
    assert all(each.is_active for each in curate_lessons([other, said[1]], CurationRules()).lessons)


def test_one_reason_to_send_work_back_is_kept_once_whatever_the_work_was() -> None:
    wordings = {
        "a": "Add tax: a reviewer rejected it: no test covers zero. What landed changed src/tax.py",
        "b": "Sum it: a reviewer rejected it: No test covers zero",
        "c": "Sum it: a reviewer rejected it: no test covers one",
        "d": "Sum it: a check failed: no test covers one. What landed changed src/sum.py",
    }
    found = [learned(key, text, day=n, files=(f"{key}.py",)) for n, (key, text) in enumerate(wordings.items())]
    kept = [each for each in curate_lessons(found, CurationRules()).lessons if each.is_active]
    assert {each.key: each.origin.files for each in kept} == {"b": ("b.py", "a.py"), "d": ("d.py", "c.py")}


def test_what_a_person_wrote_replaces_an_agents_words_and_not_the_other_way_round() -> None:
    agent = learned("a", "The clock is UTC.", used=9, helped=9, day=9)
    person = learned("b", "The clock is UTC.", confirmed=True)
    assert reasons(curate(agent, person)) == {"a": "duplicate"}


def test_a_superseded_entry_leaves() -> None:
    found = curate(learned("a", "Use tox.", superseded_by="b"), learned("b", "Use make test."))
    assert reasons(found) == {"a": "superseded"}
    assert reasons(curate(learned("a", "Use tox.", superseded_by="gone"))) == {}


# --- budgets


def test_the_least_useful_entries_leave_a_full_file_first() -> None:
    rules = CurationRules(max_entries=2)
    poor = learned("poor", "one two", used=10, helped=0, day=5)
    good = learned("good", "three four", used=10, helped=9, day=1)
    new = learned("new", "five six", day=4)
    old = learned("old", "seven eight", day=2)
    assert reasons(curate(poor, good, new, old, rules=rules)) == {"poor": "budget", "old": "budget"}


def test_a_persons_words_at_a_gate_leave_after_those_of_agents() -> None:
    rules = CurationRules(max_entries=1)
    said = learned("said", "one two", source=Source.PERSON, day=1)
    assert reasons(curate(said, learned("agent", "three four", day=9), rules=rules)) == {"agent": "budget"}


def test_a_budget_in_the_file_counts() -> None:
    texts = [learned(str(n), f"word{n} " * 20) for n in range(6)]
    assert reasons(curate(*texts)) == {}
    assert len(reasons(curate(*texts, rules=CurationRules(budgets={"mistakes": 100})))) == 4


def test_a_persons_own_words_stay_and_are_reported_if_they_are_too_many() -> None:
    mine = learned("mine", "word " * 1000, confirmed=True)
    found = curate(mine, learned("agent", "short"))
    assert reasons(found) == {"agent": "budget"}
    assert found.over_budget == {"mistakes": count_tokens(mine)}


# --- age by commits


@pytest.mark.parametrize(
    ("text", "count", "stale", "archived"),
    [
        ("The clock is UTC.", 20, False, ""),
        ("The clock is UTC.", 21, True, ""),
        ("The clock is UTC.", 41, True, "stale"),
        ("The cache does not work on Windows.", 10, False, ""),
        ("The cache does not work on Windows.", 11, True, ""),
        ("The cache does not work on Windows.", 21, True, "stale"),
    ],
)
def test_what_changed_often_since_is_marked_and_then_leaves(text: str, count: int, stale: bool, archived: str) -> None:
    (after,) = curate(learned("a", text, files=("x.py",)), changes={"a": count}).lessons
    assert (after.stale, after.archived) == (stale, archived)
    (mine,) = curate(learned("a", text, files=("x.py",), confirmed=True), changes={"a": count}).lessons
    assert (mine.stale, mine.archived) == (stale, "")


def test_what_is_no_longer_known_to_be_stale_stays_marked() -> None:
    stale = learned("a", "The clock is UTC.", stale=True)
    assert curate(stale).lessons == (stale,)
    assert not curate(stale, changes={"a": 0}).lessons[0].stale
    assert curate(stale, changes={"a": 99}, rules=CurationRules(stale_commits=0)).lessons == (stale,)


@pytest.mark.parametrize(
    ("text", "negative"),
    [
        ("cron is unsupported", True),
        ("The cache doesn't work on Windows", True),
        ("It is not possible to nest them", True),
        ("There is no way to skip it", True),
        ("Never run the migrations twice", False),
        ("The parser supports nesting", False),
        ("Do not mock the clock", False),
    ],
)
def test_a_claim_that_something_fails_is_known(text: str, negative: bool) -> None:
    assert is_negative_claim(text) is negative


# --- contradictions


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("The cache works on Windows.", "The cache doesn't work on Windows.", True),
        ("Always run the slow parser tests.", "Never run the slow parser tests.", True),
        ("Indent the makefile with tabs.", "Indent the makefile with spaces.", True),
        ("Use the global cache object.", "Avoid the global cache object.", True),
        ("The cache works on Windows.", "The cache works on Windows and macOS.", False),
        ("The cache works on Windows.", "The parser does not need a lock.", False),
    ],
)
def test_contradictions_are_found_by_their_words(one: str, other: str, expected: bool) -> None:
    first, second = (learned(key, text, files=("a.py",)) for key, text in (("a", one), ("b", other)))
    assert contradicts(first, second) is expected
    assert contradicts(second, first) is expected
    found = curate(first, second)
    assert found.contradicts == ({"a": ("b",), "b": ("a",)} if expected else {})
    assert not expected or reasons(found) == {}
    elsewhere = replace(second, origin=replace(second.origin, files=("b.py",)))
    assert not contradicts(first, elsewhere)


def test_what_was_done_is_listed() -> None:
    one, two = learned("a", "The clock is UTC.", files=("x",)), learned("b", "The clock is UTC.", files=("y",), day=2)
    steps = list_steps((one, two), curate(one, two, changes={"b": 30}))
    assert [(each.key, each.what, each.why) for each in steps] == [
        ("a", "joined", "with the subject of a duplicate"),
        ("b", "archived", "duplicate of a"),
    ]


# --- laws

many = st.lists(lessons, max_size=12, unique_by=lambda each: each.key)
rules = st.builds(
    CurationRules,
    stale_commits=st.integers(0, 5),
    max_entries=st.integers(0, 4),
    budgets=st.dictionaries(st.sampled_from(["mistakes", "patterns"]), st.integers(0, 60), max_size=2),
)


@given(many, rules, st.lists(st.integers(0, 20), max_size=12))
def test_a_persons_words_are_never_lost_or_changed(
    given_: Sequence[Lesson], rules: CurationRules, counted: list[int]
) -> None:
    changes = {each.key: count for each, count in zip(given_, counted, strict=False)}
    found = curate_lessons(given_, rules, changes)
    assert [(each.key, each.text, each.origin.source, each.confirmed) for each in found.lessons] == [
        (each.key, each.text, each.origin.source, each.confirmed) for each in given_
    ]
    assert all(after.is_active for after in found.lessons if is_kept(after))


@given(many, rules, st.lists(st.integers(0, 20), max_size=12))
def test_budgets_hold(given_: Sequence[Lesson], rules: CurationRules, counted: list[int]) -> None:
    changes = {each.key: count for each, count in zip(given_, counted, strict=False)}
    files: dict[str, list[Lesson]] = {}
    for each in curate_lessons(given_, rules, changes).lessons:
        if each.is_active:
            files.setdefault(get_knowledge_file(each).name, []).append(each)
    for name, entries in files.items():
        budget = (rules.budgets or {}).get(name, get_knowledge_file(entries[0]).tokens)
        own = [each for each in entries if is_kept(each)]
        if len(own) < len(entries):
            assert sum(map(count_tokens, entries)) <= budget
            assert len(entries) <= rules.max_entries


@given(many, rules, st.lists(st.integers(0, 20), max_size=12), st.randoms())
def test_the_same_lessons_give_the_same_files_in_any_order_and_again(
    given_: Sequence[Lesson], rules: CurationRules, counted: list[int], random: object
) -> None:
    changes = {each.key: count for each, count in zip(given_, counted, strict=False)}
    once = curate_lessons(given_, rules, changes)
    assert curate_lessons(once.lessons, rules, changes) == once
    shuffled = list(given_)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # of hypothesis
    other = curate_lessons(shuffled, rules, changes)
    assert {each.key: each for each in other.lessons} == {each.key: each for each in once.lessons}
    assert other.contradicts == once.contradicts
