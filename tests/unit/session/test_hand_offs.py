"""Each stage leaves a hand-off for the next one; who gets it follows from the workflow and from what happened."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings

from blueflame.journal.codec import decode_event, encode_event
from blueflame.model.attempt import Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.event import AttemptEnded
from blueflame.model.hand_off import HandOff, HandOffStatus, TouchedFile
from blueflame.model.limits import REVIEWED, Limits
from blueflame.model.workflow import Workflow, build_stages
from blueflame.session.hand_offs import StageHandOff, list_hand_offs, list_received
from blueflame.session.replay import replay
from blueflame.testing.simulation import Simulation
from blueflame.text.hand_offs import MAX_TOKENS, format_hand_off, select_hand_offs
from blueflame.text.tokens import estimate_tokens
from support.random_sessions import worlds
from support.session_examples import BARRIER, SINGLE, Outcomes, reported, task

ROLES = {"backend": Duty.MAKE, "frontend": Duty.MAKE, "review-git": Duty.JUDGE, "qa": Duty.JUDGE}
NAMES = ("plan", "backend", "review-git", "frontend", "review-git", "qa", "merge")
PIPELINE = Workflow(name="mine", stages=NAMES, barrier=False, steps=build_stages(NAMES, ROLES))
LIMITS = Limits(dependents=REVIEWED)

EXAMPLE = StageHandOff(
    task="task-001",
    attempt="ses.task-001.backend.1",
    position=0,
    sender="backend",
    receiver="review-git",
    is_verdict=False,
    to_judge=True,
    status=HandOffStatus.COMPLETE,
    left=HandOff(
        summary=("Implemented user authentication API", "Added JWT token validation"),
        learnings=("This project uses strict TypeScript",),
        recommendations=("Review JWT expiry logic",),
        confidence=0.85,
        files=(TouchedFile("src/api/auth.ts", "created"), TouchedFile("src/middleware/jwt.ts", "modified")),
    ),
)
MARKDOWN = """\
# HANDOFF: backend → review-git

## Task: task-001
## Status: COMPLETE
## Confidence: 0.85

## Summary
- Implemented user authentication API
- Added JWT token validation

## Files Changed
- src/api/auth.ts (created)
- src/middleware/jwt.ts (modified)

## Learnings for Reviewer
- This project uses strict TypeScript

## Blockers
- None

## Recommendations for Next Agent
- Review JWT expiry logic
"""


class ByStage(Outcomes):
    """Attempts are called by their stages: `task-001.review-git-2.1`."""

    def pick_ending(self, attempt: Attempt) -> Ending:
        return self.endings.get(attempt.id.partition(".")[2], Ending.PASSED)

    def approves(self, attempt: Attempt) -> bool:
        return attempt.id.partition(".")[2] not in self.refused


class Stuck(ByStage):
    def pick_hand_off(self, attempt: Attempt) -> HandOff:
        return HandOff(blockers=("no database here",) if attempt.n == 1 else ())


def titles(world: Simulation) -> list[tuple[str, str, str]]:
    return [(each.sender, each.receiver, each.status.value) for each in list_hand_offs(world.session, "task-001")]


def received(world: Simulation, name: str) -> list[str]:
    (attempt,) = (each.attempt for each in world.session.attempts.values() if each.attempt.id.endswith(name))
    return [each.attempt.partition(".")[2].partition(".")[2] for each in list_received(world.session, attempt)]


def test_a_hand_off_has_the_form_of_the_handbook() -> None:
    assert format_hand_off(EXAMPLE) == MARKDOWN


def test_what_the_next_agent_should_know_is_not_called_after_a_reviewer() -> None:
    text = format_hand_off(replace(EXAMPLE, receiver="frontend", to_judge=False, left=HandOff()))
    assert "## Confidence: not given" in text
    assert "## Learnings for Next Agent\n- None" in text


def test_stages_hand_over_to_each_other_up_to_the_merge() -> None:
    assert titles(reported(ByStage(task(1)), PIPELINE, LIMITS)) == [
        ("backend", "review-git", "COMPLETE"),
        ("review-git", "frontend", "COMPLETE"),
        ("frontend", "review-git-2", "COMPLETE"),
        ("review-git-2", "qa", "COMPLETE"),
        ("qa", "merge", "COMPLETE"),
    ]


@pytest.mark.parametrize(("workflow", "receiver"), [(BARRIER, "validator"), (SINGLE, "check")])
def test_a_worker_hands_over_to_those_who_judge_it(workflow: Workflow, receiver: str) -> None:
    assert titles(reported(Outcomes(task(1)), workflow, LIMITS))[0] == ("worker", receiver, "COMPLETE")


def test_a_refused_result_goes_back_to_the_stage_that_made_it_with_the_words_of_the_reviewer() -> None:
    world = reported(
        ByStage(task(1), refused=["task-001.review-git-2.1"], answers={"validation": "requeue"}), PIPELINE, LIMITS
    )
    assert ("review-git-2", "frontend", "FAILED") in titles(world)
    assert received(world, "frontend.2")[-2:] == ["frontend.1", "review-git-2.1"]
    assert received(world, "review-git-2.2")[-2:] == ["review-git-2.1", "frontend.2"]


def test_a_verdict_below_the_threshold_is_not_complete() -> None:
    limits = replace(LIMITS, review_threshold=0.5)
    world = reported(ByStage(task(1), answers={"validation": "drop"}), PIPELINE, limits)
    assert titles(world)[-1] == ("review-git", "backend", "FAILED"), "no confidence counts as 0"


def test_a_failed_attempt_that_names_a_blocker_is_blocked() -> None:
    world = reported(Stuck(task(1), endings={"task-001.backend.1": Ending.FAILED}), PIPELINE, LIMITS)
    assert titles(world)[:2] == [("backend", "backend", "BLOCKED"), ("backend", "review-git", "COMPLETE")]
    assert received(world, "backend.2") == ["backend.1"]


def test_a_stage_with_nothing_to_do_is_complete_if_others_make_something() -> None:
    world = reported(ByStage(task(1), endings={"task-001.backend.1": Ending.NO_COMMITS}), PIPELINE, LIMITS)
    assert titles(world)[0] == ("backend", "frontend", "COMPLETE"), "a reviewer has nothing to judge"
    alone = reported(Outcomes(task(1), endings={"task-001.worker.1": Ending.NO_COMMITS}), BARRIER, LIMITS)
    assert titles(alone)[0] == ("worker", "worker", "FAILED")


def test_each_agent_gets_the_last_word_of_every_stage_before_it() -> None:
    world = reported(ByStage(task(1)), PIPELINE, LIMITS)
    assert received(world, "task-001.backend.1") == []
    assert received(world, "qa.1") == ["backend.1", "review-git.1", "frontend.1", "review-git-2.1"]


def test_of_long_hand_offs_the_newest_keeps_most_and_all_fit_into_the_budget() -> None:
    long = replace(EXAMPLE, left=HandOff(summary=tuple(f"{n} {'x' * 200}" for n in range(20))))
    texts = select_hand_offs([replace(long, sender="old"), replace(long, sender="new")])
    assert sum(map(estimate_tokens, texts)) <= MAX_TOKENS
    old, new = texts
    assert new.count("\n- ") > old.count("\n- ")
    assert "- … and " in old


def test_a_hand_off_that_no_budget_holds_is_left_out_alone() -> None:
    wide = replace(EXAMPLE, left=HandOff(summary=("😀" * 400,) * 20))
    assert [text.partition("\n")[0] for text in select_hand_offs([EXAMPLE, wide])] == [
        "# HANDOFF: backend → review-git"
    ] * 2
    assert select_hand_offs([EXAMPLE], budget=10) == ()


def test_an_ending_of_an_earlier_journal_has_no_hand_off() -> None:
    kind, body = encode_event(AttemptEnded(attempt="a", ended=AttemptOutcome(ending=Ending.PASSED)))
    assert '"hand_off":null' in body
    old = decode_event(kind, body.replace(',"hand_off":null', ""))
    assert isinstance(old, AttemptEnded)
    assert old.ended.hand_off is None


@settings(max_examples=15)
@given(worlds(most=5))
def test_hand_offs_are_a_view_of_the_journal_and_never_come_from_later_than_their_receiver(world: Simulation) -> None:
    world.run()
    session = replay(world.journal)
    for name in session.tasks:
        found = list_hand_offs(session, name)
        assert found == list_hand_offs(world.session, name)
        assert {each.attempt for each in found} == {
            record.attempt.id
            for record in session.attempts.values()
            if record.attempt.subject == name and record.ended and record.ended.hand_off
            if record.ended.ending is not Ending.QUESTION
        }
    for text in (format_hand_off(each) for name in session.tasks for each in list_hand_offs(session, name)):
        assert text.startswith("# HANDOFF: ")


def test_a_question_is_no_hand_off() -> None:
    limits = replace(LIMITS, max_questions=1)
    world = reported(Outcomes(task(1), endings={"task-001.backend.1": Ending.QUESTION}), PIPELINE, limits)
    assert world.session.outcome == "completed"
    assert next(each.attempt for each in list_hand_offs(world.session, "task-001")).endswith("backend.2")


def test_prompts_are_built_while_the_loop_adds_attempts() -> None:
    """In threads: a session of a thousand tasks ended by an attempt that was added meanwhile."""
    session = reported(Outcomes(task(1))).session
    (record, *_) = session.attempts.values()
    session.attempts |= {f"other-{n}": record for n in range(500)}
    stop, before = threading.Event(), sys.getswitchinterval()

    def add() -> None:
        for n in count():
            if stop.is_set():
                break
            session.attempts[f"more-{n % 1000}"] = record
            session.attempts.pop(f"more-{(n + 500) % 1000}", None)

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(add)
            try:
                for _ in range(50):
                    assert list_received(session, record.attempt) == ()
            finally:
                stop.set()
            adding.result()
    finally:
        sys.setswitchinterval(before)
