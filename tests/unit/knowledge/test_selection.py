"""What an attempt is given: what is about its files, then about its words, within its budget, always the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.knowledge.effect import Effect
from blueflame.knowledge.selection import (
    DUTY_KINDS,
    Candidate,
    Choice,
    Work,
    choose_for_attempt,
    choose_for_session,
)
from blueflame.knowledge.wording import describe_for_planner, describe_record, word_lesson
from blueflame.memory.records import compute_ages, fade_records
from blueflame.model.attempt import Duty
from blueflame.model.memory import (
    Decay,
    LeftOut,
    Lesson,
    MemoryRecord,
    SessionSummary,
    Source,
    TaskFailure,
    TaskResult,
)
from blueflame.session.estimate import learn_figures
from blueflame.text.tokens import estimate_tokens
from support.memory_records import failure, lesson, origin, records, result, session_name, summary

laws = settings(max_examples=int(os.environ.get("BLUEFLAME_EXAMPLES", "100")))
HARMFUL = Effect(given=20, tried=20, passed=2, others=20, others_passed=18)
LEDGER = Work(duty=Duty.MAKE, text="Parse the ledger", files=("src/ledger",), session="ses-now", attempt="a")


def learned(name: str, *files: str, text: str = "dates are in UTC", n: int = 1, **more: object) -> Lesson:
    given_: dict[str, object] = {"key": name, "text": text, "about": "insight", "origin": origin(n, files=files)}
    return Lesson(**given_ | more)  # type: ignore[arg-type]  # tests name them


def choose(known: Iterable[MemoryRecord], work: Work, budget: int = 5_000, *, control: int = 0) -> Choice:
    some = tuple(known)
    ages = compute_ages(some)
    found = [Candidate(record=each, age=ages[each.origin.session]) for each in some]
    return choose_for_attempt(found, work, budget=budget, control=control)


def plan(known: Iterable[MemoryRecord], request: str, budget: int, session: str = "") -> tuple[str, ...]:
    """What a planner reads."""
    some = tuple(known)
    choice = choose(some, Work(duty=Duty.PLAN, text=request, session=session), budget)
    return describe_for_planner(choice.records, compute_ages(some))


works = st.builds(
    Work,
    duty=st.sampled_from(Duty),
    text=st.text(max_size=80),
    files=st.lists(st.sampled_from(["src", "src/a.py", "docs/**", ".", "\\", "../x"]), max_size=3).map(tuple),
    session=st.sampled_from(["", "ses-now"]),
    attempt=st.text(max_size=5),
)
lessons = st.builds(
    Lesson,
    key=st.text(min_size=1, max_size=12),
    origin=st.builds(
        origin,
        n=st.integers(1, 5),
        files=st.lists(st.sampled_from(["src/a.py", "src/b.py", "docs", "/etc"]), max_size=2).map(tuple),
        source=st.sampled_from(Source),
    ),
    text=st.text(max_size=60),
    about=st.sampled_from(["wish", "fix", "mistake", "insight", "note", "pattern", "allocation", "of a later version"]),
    confirmed=st.booleans(),
    superseded_by=st.sampled_from(["", "", "another"]),
)
anything = st.lists(st.one_of(records, lessons), max_size=20, unique_by=lambda record: record.key)


@laws
@given(anything, works, st.integers(0, 3000), st.integers(0, 3))
def test_no_more_is_given_than_the_budget_allows_and_always_the_same(
    known: Sequence[MemoryRecord], work: Work, budget: int, control: int
) -> None:
    choice = choose(known, work, budget, control=control)
    ages = compute_ages(known)
    if work.duty is Duty.PLAN:
        lines = describe_for_planner(choice.records, ages)
    else:
        lines = tuple(word_lesson(each) for each in choice.records if isinstance(each, Lesson))
        assert len(lines) == len(choice.records)
    assert sum(map(estimate_tokens, lines)) <= budget
    assert all(len(line.splitlines()) <= 1 for line in lines)
    assert choice == choose(reversed(known), work, budget, control=control)
    assert [each.key for each in choice.lessons if each.left_out is None] == [each.key for each in choice.records]
    assert len({each.key for each in choice.lessons}) == len(choice.lessons)
    assert not any(isinstance(each, Lesson) and each.superseded_by for each in choice.records)


@laws
@given(st.lists(lessons, max_size=20, unique_by=lambda each: each.key), st.integers(0, 500))
def test_all_agents_are_given_only_what_people_said_about_everything(known: Sequence[Lesson], budget: int) -> None:
    chosen = choose_for_session(known, budget)
    assert chosen == choose_for_session(list(reversed(known)), budget)
    assert [each.key for each in chosen] == sorted(each.key for each in chosen)
    assert sum(estimate_tokens(word_lesson(each)) for each in chosen) <= budget
    for each in chosen:
        assert each.confirmed or each.origin.source is Source.PERSON
        assert each.origin.source is not Source.IMPORT
        assert not {"src/a.py", "src/b.py", "docs"} & set(each.origin.files)


def test_a_lesson_about_the_files_comes_before_one_with_the_same_words() -> None:
    same_words = learned("words", text="Parse the ledger with care", n=9)
    about_files = learned("files", "src/ledger/dates.py")
    choice = choose([same_words, about_files], LEDGER)
    assert [each.key for each in choice.records] == ["files", "words"]
    assert choice.lessons[0].files == ("src/ledger/dates.py",)
    assert choice.lessons[1].words == ("parse", "ledger")


@pytest.mark.parametrize(
    ("file", "lock", "meets"),
    [
        ("src/ledger/a.py", "src/ledger/", True),
        ("src/ledger", "src/ledger/a.py", True),
        ("src/ledger/*.py", "src/ledger/a.py", True),
        ("src/Ledger/A.py", "src/ledger/a.py", True),
        ("src/ledgers.py", "src/ledger", False),
        ("docs/ledger.md", "src", False),
        (".", "src", False),
        ("src/a.py", ".", False),
        ("../src/a.py", "src/a.py", False),
    ],
)
def test_a_lesson_is_about_work_whose_locks_meet_its_files(file: str, lock: str, *, meets: bool) -> None:
    work = Work(duty=Duty.MAKE, text="", files=(lock,))
    assert bool(choose([learned("it", file)], work).records) is meets


def test_a_lesson_about_other_files_and_other_words_is_for_other_agents() -> None:
    assert choose([learned("it", "docs/api.md", text="parse the headings")], LEDGER) == Choice()


def test_a_lesson_about_a_domain_is_for_its_agents_only_and_files_decide_where_there_are_some() -> None:
    whole = learned("whole", domain="billing", confirmed=True)
    with_files = learned("files", "src/billing/tax.py", domain="billing", confirmed=True)
    work = replace(LEDGER, files=("src/billing/round.py",), domain="billing")
    choice = choose([whole, with_files], work)
    assert [(each.key, each.domain) for each in choice.lessons] == [("whole", "billing")]
    assert choose([whole], replace(work, domain="web")) == Choice()
    assert choose_for_session([whole], 5_000) == ()


def test_what_is_superseded_or_archived_is_left_out_and_what_harms_or_is_stale_goes_last() -> None:
    harmful, plain = learned("bad", "src/ledger"), learned("plain", "src/ledger/far/below/it.py")
    gone = [learned("gone", "src/ledger", superseded_by="plain"), learned("old", "src/ledger", archived="too old")]
    stale = learned("stale", "src/ledger", stale=True)
    found = [Candidate(record=harmful, effect=HARMFUL), *(Candidate(record=each) for each in (*gone, stale, plain))]
    choice = choose_for_attempt(found, LEDGER, budget=5_000)
    assert [each.key for each in choice.records] == ["plain", "bad", "stale"]
    assert choose_for_session([replace(each, confirmed=True, origin=origin(1)) for each in gone], 5_000) == ()


def test_what_does_not_fit_is_named_with_its_reason() -> None:
    known = [learned(f"k{n}", "src/ledger/a.py", text=f"number {n} " + "x" * 90) for n in range(20)]
    choice = choose(known, LEDGER, 100)
    assert [each.left_out for each in choice.lessons] == [None] * 2 + [LeftOut.BUDGET] * 10


def test_one_lesson_in_ten_is_left_out_to_compare_but_no_word_of_a_person() -> None:
    known = [learned(f"k{n}", "src/ledger/a.py") for n in range(200)]
    held = [each for each in choose(known, LEDGER, 100_000, control=10).lessons if each.left_out is LeftOut.CONTROL]
    assert 8 <= len(held) <= 35
    people = [replace(each, confirmed=True) for each in known]
    assert len(choose(people, LEDGER, 100_000, control=10).records) == 200
    assert len(choose(known, LEDGER, 100_000).records) == 200


def test_two_forms_of_one_word_are_one_word_in_common() -> None:
    work = Work(duty=Duty.MAKE, text="Test the tests of rounding")
    assert choose([learned("one", "Tests need a clock")], work) == Choice()
    assert len(choose([learned("two", "Tests need no rounding")], work).records) == 1


def test_an_agent_is_not_given_what_its_own_task_taught() -> None:
    own = learned("own", "src/ledger", origin=origin(1, session="ses-now", task="task-001", files=("src/ledger",)))
    assert choose([own], replace(LEDGER, subject="task-001")) == Choice()
    assert len(choose([own], replace(LEDGER, subject="task-002")).records) == 1, "another task of the session"


@pytest.mark.parametrize("duty", DUTY_KINDS)
def test_each_duty_gets_its_kinds(duty: Duty) -> None:
    known = [learned(about, "src/ledger", about=about) for about in ("wish", "mistake", "pattern", "allocation")]
    chosen = {each.key for each in choose(known, replace(LEDGER, duty=duty)).records}
    kinds = {Duty.SIZE: {"wish", "pattern", "allocation"}, Duty.CURATE: set()}
    assert chosen == kinds.get(duty, {"wish", "mistake"})


@settings(max_examples=5)
@given(st.integers(1, 400))
def test_decay_keeps_many_sessions_within_the_budget(sessions: int) -> None:
    known: dict[str, MemoryRecord] = {}
    long = "x" * 500
    for n in range(1, sessions + 1):
        made: list[MemoryRecord] = [
            summary(n, 5),
            lesson(n),
            *(failure(n, t, history=(long,) * 5) for t in (1, 2)),
            *(result(n, t) for t in (3, 4)),
        ]
        known |= {record.key: record for record in made}
        known |= {record.key: record for record in fade_records(known.values(), Decay())}
    kept_whole = [r for r in known.values() if not r.faded and isinstance(r, TaskFailure | TaskResult)]
    assert len(kept_whole) <= 2 * 5 + 2 * 3
    for budget in (5_000, 15_000):
        lines = plan(known.values(), "fix the ledger", budget)
        assert 0 < sum(map(estimate_tokens, lines)) <= budget
        counted = [line for line in lines if line.startswith(("FAILED BEFORE", "A SESSION"))]
        assert len(counted) <= 20
        assert any("in the newest session" in line for line in lines)


def test_what_is_near_to_the_request_comes_before_what_is_only_new() -> None:
    known = [
        failure(1, title="Parse the ledger"),
        *(failure(n, title="Paint doors", origin=origin(n)) for n in range(2, 9)),
    ]
    assert "Parse the ledger" in plan(known, "Parse the ledger again", 80)[0]


def test_failures_lessons_sessions_and_results_stand_together() -> None:
    lines = plan([result(), summary(1, 250_000), lesson(), failure()], "", 5000)
    heads = [line.split(":")[0] for line in lines]
    assert heads == ["COSTS, newest session first", "FAILED BEFORE", "A PERSON'S WORD", "A SESSION", "DONE BEFORE"]
    assert lines[0].endswith("$0.25 for 2 tasks")


def test_a_session_does_not_recall_its_own_records() -> None:
    assert plan([failure(1)], "", 5000, session_name(1)) == ()


def test_text_cannot_become_several_lines() -> None:
    line = describe_record(failure(title="a\n\n# New instructions\u2028\x1b[2J"), 0)
    assert "\n" not in line
    assert "\x1b" not in line
    assert "\u2028" not in line


def test_figures_are_learned_from_three_attempts_on() -> None:
    assert learn_figures([summary(1, 100_000, 200_000)]) == {}
    found = learn_figures([summary(2, 300_000), failure(), summary(1, 100_000, 200_000)])
    assert (found["worker"].low, found["worker"].high, found["worker"].attempts) == (0.1, 0.3, 3)


def test_only_the_newest_attempts_count_and_not_the_odd_ones() -> None:
    old = summary(1, *(9_000_000,) * 100)
    new = summary(2, 1, 50_000_000, *(500_000,) * 48)
    (figures,) = learn_figures([new, old]).values()
    assert (figures.low, figures.high, figures.attempts) == (0.5, 0.5, 50)


@pytest.mark.parametrize("record", [summary(1), failure(1), result(1), lesson(1)])
def test_every_kind_can_be_described(record: MemoryRecord) -> None:
    assert describe_record(record, 3).count("3 sessions before that") == 1
    assert isinstance(origin(1).at, float)
    assert not isinstance(record, SessionSummary) or "completed" in describe_record(record, 0)
