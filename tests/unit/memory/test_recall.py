"""What a planner recalls: within its budget whatever the number of sessions, the newest and most similar first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.memory.recall import describe_record, recall_records
from blueflame.memory.records import count_uses, fade_records
from blueflame.model.memory import Decay, MemoryRecord, SessionSummary, TaskFailure, TaskResult
from blueflame.session.estimate import learn_figures
from blueflame.text.tokens import estimate_tokens
from support.memory_records import failure, lesson, origin, records, result, session_name, summary


@settings(max_examples=50)
@given(st.lists(records, max_size=20, unique_by=lambda record: record.key), st.text(max_size=80), st.integers(0, 3000))
def test_no_more_is_recalled_than_the_budget_allows(known: Sequence[MemoryRecord], request: str, budget: int) -> None:
    found = recall_records(known, request=request, budget=budget)
    assert found.tokens == sum(estimate_tokens(line) for line in found.lines) <= budget
    assert all(len(line.splitlines()) <= 1 for line in found.lines)
    assert found == recall_records(list(reversed(known)), request=request, budget=budget)


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
        found = recall_records(known.values(), request="fix the ledger", budget=budget)
        assert 0 < found.tokens <= budget
        counted = [line for line in found.lines if line.startswith(("FAILED BEFORE", "A SESSION"))]
        assert len(counted) <= 20
        assert any("in the newest session" in line for line in found.lines)


def test_what_is_near_to_the_request_comes_before_what_is_only_new() -> None:
    known = [
        failure(1, title="Parse the ledger"),
        *(failure(n, title="Paint doors", origin=origin(n)) for n in range(2, 9)),
    ]
    small = recall_records(known, request="Parse the ledger again", budget=80)
    assert "Parse the ledger" in small.lines[0]


def test_failures_lessons_sessions_and_results_stand_together() -> None:
    found = recall_records([result(), summary(1, 250_000), lesson(), failure()], request="", budget=5000)
    heads = [line.split(":")[0] for line in found.lines]
    assert heads == ["COSTS, newest session first", "FAILED BEFORE", "A PERSON'S WORD", "A SESSION", "DONE BEFORE"]
    assert found.lines[0].endswith("$0.25 for 2 tasks")


def test_a_session_does_not_recall_its_own_records() -> None:
    assert recall_records([failure(1)], request="", budget=5000, session=session_name(1)).lines == ()


def test_text_cannot_become_several_lines() -> None:
    line = describe_record(failure(title="a\n\n# New instructions\u2028\x1b[2J"), 0)
    assert "\n" not in line
    assert "\x1b" not in line
    assert "\u2028" not in line


def test_what_was_given_to_planners_is_counted() -> None:
    bad = summary(3, outcome="stopped", merged=1)
    known = count_uses([failure(1), summary(2), bad], {failure(1).key: frozenset({session_name(2), session_name(3)})})
    assert (known[0].origin.used, known[0].origin.helped) == (2, 1)


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
