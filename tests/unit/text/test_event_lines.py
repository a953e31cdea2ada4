from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    Checked,
    Event,
    GateAnswered,
    JournalEntry,
    PlanProposed,
    TaskMoved,
    VerdictGiven,
)
from blueflame.model.gate import Answer
from blueflame.model.hand_off import HandOff
from blueflame.model.ids import build_agent_id, build_attempt_id
from blueflame.model.seat import Allocation
from blueflame.model.spend import Spend
from blueflame.model.task import Cause
from blueflame.model.verdict import Check, Verdict, VerdictStatus
from blueflame.text.event_lines import (
    LONG_FORMS,
    MOVED,
    EventLine,
    ShortLine,
    describe_event,
    describe_event_briefly,
    format_log_lines,
)
from blueflame.text.marks import BAD, DOT, NOTE, OK
from support.event_strategies import KINDS, build_events

ATTEMPT = build_attempt_id("ses-20260206-143022", "task-001", "worker", 2)


def line_of(event: Event) -> EventLine:
    return describe_event(JournalEntry(1, 0.0, event))


def test_no_event_and_no_cause_is_forgotten() -> None:
    assert set(LONG_FORMS) == set(KINDS)
    assert set(MOVED) == set(Cause)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=10)
@given(data=st.data())
def test_every_event_gives_harmless_lines(kind: type[Event], data: st.DataObject) -> None:
    recorded = JournalEntry(1, 1_770_388_222.0, data.draw(build_events(kind)))
    for text in format_log_lines([recorded]):
        assert len(text.splitlines()) == 1
        assert not {unicodedata.category(character) for character in text} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert text.startswith("[2026-02-06T14:30:22Z] [")


def test_the_log_has_who_was_chosen_and_why_the_domain_of_a_new_seat_and_what_an_agent_learned() -> None:
    """DOM-05, DOM-06, LOG-05."""
    allocation = Allocation(seat="worker-1", domain="billing", reason="new, for billing", is_new=True)
    attempt = Attempt(
        id=ATTEMPT, session="ses-20260206-143022", subject="task-001", role="worker", n=2, agent_id="worker-1a2b3c4d"
    )
    left = HandOff(learnings=("tests need a database", "prices are in cents"))
    events: tuple[Event, ...] = (
        AttemptIntended(attempt=replace(attempt, allocation=allocation)),
        AttemptIntended(attempt=replace(attempt, allocation=replace(allocation, is_new=False, reason="it is free"))),
        AttemptEnded(attempt=ATTEMPT, ended=AttemptOutcome(ending=Ending.PASSED, hand_off=left)),
    )
    lines = format_log_lines(JournalEntry(n, 0.0, event) for n, event in enumerate(events, start=1))
    agent = build_agent_id("worker", ATTEMPT)
    assert [line.removeprefix("[1970-01-01T00:00:00Z] ") for line in lines if "_ENDED" not in line] == [
        "[worker-1a2b3c4d] [ATTEMPT_INTENDED] worker for task-001, attempt 2, by scripted: worker-1, new, for billing",
        "[worker-1] [DOMAIN_SET] billing, by task-001",
        "[worker-1a2b3c4d] [ATTEMPT_INTENDED] worker for task-001, attempt 2, by scripted: worker-1, it is free",
        f"[{agent}] [KNOWLEDGE_DISTILLED] 2 learnings: tests need a database; prices are in cents",
    ]


def test_checks_are_shown_when_they_have_ended() -> None:
    green = Check(name="npm test", exit_code=0, seconds=1.0, tests=12, tests_before=11)
    before = Check(name="tox", exit_code=1, seconds=1.0, red_before=True)
    brief = [
        describe_event_briefly(JournalEntry(1, 0.0, Checked(task="task-001", sha="a" * 40, checks=checks)))
        for checks in ((green,), (green, before), (before, Check(name="mypy", exit_code=2, seconds=1.0)), ())
    ]
    assert brief == [
        ShortLine(OK, "task-001 checked: npm test passed (12 tests, 11 on the base)"),
        ShortLine(
            NOTE, "task-001 checked: npm test passed (12 tests, 11 on the base); tox is red before, same failures"
        ),
        ShortLine(BAD, "task-001 checked: tox is red before, same failures; mypy failed"),
        None,
    ]


def test_an_agent_is_named_by_its_attempt() -> None:
    line = line_of(AttemptStarted(attempt=ATTEMPT, base=None, worktree=None, warden_pid=7))
    assert line.agent == build_agent_id("worker", ATTEMPT)
    assert line.details == f"attempt {ATTEMPT} runs under warden 7"


def test_an_ending_is_described_with_its_cost() -> None:
    ended = AttemptOutcome(
        ending=Ending.TIMEOUT, seconds=300.04, spend=Spend(micro_usd=12_300), commits=1, notes="slow"
    )
    assert line_of(AttemptEnded(attempt=ATTEMPT, ended=ended)).details == (
        f"attempt {ATTEMPT} ended: timeout, after 300.0 s, $0.0123, 1 commit (slow)"
    )


def test_the_notes_of_an_ending_are_kept_apart_and_an_account_is_explained_once() -> None:
    def line(ending: Ending) -> str:
        ended = AttemptOutcome(ending=ending, notes="its time was up\n\nleft uncommitted: 1 untracked (b.py)")
        found = describe_event_briefly(JournalEntry(1, 0.0, AttemptEnded(attempt=ATTEMPT, ended=ended)))
        assert found is not None
        return found.words

    assert line(Ending.TIMEOUT).endswith(": its time was up; left uncommitted: 1 untracked (b.py)")
    assert "time was up" not in line(Ending.ACCOUNT), "the line of the parked runtime has the reason"


@pytest.mark.parametrize(("commits", "words"), [(0, "answered after 2.0 s"), (1, "passed after 2.0 s, 1 commit")])
def test_an_agent_that_made_nothing_answered_whatever_its_answer_was(commits: int, words: str) -> None:
    ended = AttemptOutcome(ending=Ending.PASSED, seconds=2.0, commits=commits)
    found = describe_event_briefly(JournalEntry(1, 0.0, AttemptEnded(attempt=ATTEMPT, ended=ended)))
    assert found is not None
    assert found.words.endswith(words)


def test_a_stage_with_nothing_to_do_is_no_failure() -> None:
    ended = AttemptOutcome(ending=Ending.NOTHING_TO_DO, seconds=2.0, notes="no table changes")
    found = describe_event_briefly(JournalEntry(1, 0.0, AttemptEnded(attempt=ATTEMPT, ended=ended)))
    assert found is not None
    assert (found.mark, found.words.endswith("nothing to do after 2.0 s: no table changes")) == (DOT, True), found


def test_a_move_is_described_with_its_reason() -> None:
    line = line_of(TaskMoved(task="task-002", cause=Cause.BLOCK, reason="dependency task-001 failed"))
    assert line == EventLine("orchestrator", "TASK_BLOCK", "task-002 is blocked: dependency task-001 failed")


def test_a_person_is_named_as_the_one_who_answered() -> None:
    line = line_of(GateAnswered(gate="gate-3", answer=Answer(choice="reject", note="нет тестов", by="terminal")))
    assert line == EventLine("terminal", "GATE_ANSWERED", "gate-3: reject (нет тестов)")


def test_long_details_are_cut() -> None:
    line = line_of(TaskMoved(task="task-002", cause=Cause.FAIL, reason="x" * 100_000))
    assert len(line.details) == 500
    assert line.details.endswith("…")


def brief(event: Event) -> str:
    found = describe_event_briefly(JournalEntry(1, 0.0, event))
    return found.words if found is not None else ""


def test_a_verdict_names_the_stage_whose_agent_gave_it() -> None:
    verdict = Verdict(status=VerdictStatus.PASS, notes="fine")
    found = VerdictGiven(task="task-001", sha="a" * 40, verdict=verdict, attempt=ATTEMPT, stage="review-git-2")
    assert brief(found) == "task-001 validated by review-git-2: fine"
    assert brief(replace(found, attempt="", stage="check")) == "task-001 validated: fine"
    assert brief(replace(found, stage="")) == "task-001 validated: fine", "as in earlier journals"


def test_an_attempt_on_the_ladder_names_who_tries_it() -> None:
    usual = Attempt(id=ATTEMPT, session="s", subject="task-001", role="worker", n=2, agent_id="w", model="opus")
    assert brief(AttemptIntended(attempt=usual)) == "", "its start is shown"
    words = brief(AttemptIntended(attempt=replace(usual, rung=1)))
    assert words == "task-001 #2 goes to scripted opus, rung 1 of its ladder"


def test_a_failed_process_is_shown_with_its_exit_code() -> None:
    ended = AttemptOutcome(ending=Ending.FAILED, seconds=1.0, exit_code=3)
    assert brief(AttemptEnded(attempt=ATTEMPT, ended=ended)) == "task-001 #2 failed after 1.0 s, exit code 3"


def test_a_plan_that_cannot_be_used_says_why_and_another_what_to_know() -> None:
    plan = PlanProposed(round=1, tasks=(), origin="planner", warnings=("nothing runs in parallel",))
    assert brief(plan) == "a plan of 0 tasks: nothing runs in parallel"
    refused = replace(plan, problems=("the lock '.gitattributes' is outside of allowed_paths",))
    assert brief(refused) == "a plan of 0 tasks with 1 problem: the lock '.gitattributes' is outside of allowed_paths"
