"""What a session teaches: words of agents whose work landed, of people, and of checks that passed later."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings

from blueflame.knowledge.distill import distill_lessons
from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.event import FixRequested, GateAnswered, GateOpened, QuestionAsked
from blueflame.model.gate import Answer
from blueflame.model.hand_off import HandOff, TouchedFile
from blueflame.model.memory import Lesson, Source, get_knowledge_file
from blueflame.model.question import Question
from blueflame.model.task import FixedWork, Result, TaskState
from blueflame.model.verdict import StageVerdict, Verdict, VerdictStatus
from blueflame.session.consequences import consequences_of
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation
from support.random_sessions import worlds
from support.recorded_session import ID, Story

LEFT = HandOff(
    learnings=("The router reads its table once, at import",),
    files=(TouchedFile("pkg/middleware/jwt.go", "modified"), TouchedFile("pkg/middleware/jwt_test.go", "created")),
)
MADE = f"{ID}.task-001.worker.1"
SHA = "b" * 40


def made(*, state: TaskState = TaskState.MERGED, ending: Ending = Ending.PASSED, **more: object) -> Session:
    """A session whose first task was made by an attempt that left words."""
    session = Story().working().session
    record, task = session.attempts[MADE], session.tasks["task-001"]
    ended = AttemptOutcome(ending=ending, base="a" * 40, tip=SHA, commits=1, hand_off=LEFT)
    session.attempts[MADE] = replace(record, attempt=replace(record.attempt, stage=0), ended=ended, ended_at=5.0)
    result = Result(sha=SHA, base="a" * 40, attempt=MADE)
    session.tasks["task-001"] = replace(task, state=state, result=result, **more)  # type: ignore[arg-type]  # tests name them
    session.states = {each: {} for each in TaskState} | {state: {"task-001": None}}
    return session


def fails(by: str, notes: str, *issues: str) -> StageVerdict:
    verdict = Verdict(status=VerdictStatus.FAIL, notes=notes, issues=issues, by=by)
    return StageVerdict(stage="review", sha="c" * 40, verdict=verdict)


def of_kind(session: Session, about: str) -> list[Lesson]:
    return [lesson for lesson in distill_lessons(session) if lesson.about == about]


def test_what_an_agent_learned_is_kept_when_its_work_has_landed() -> None:
    (lesson,) = of_kind(made(), "insight")
    assert lesson.text == "The router reads its table once, at import"
    assert (lesson.origin.session, lesson.origin.attempt, lesson.origin.commit) == (ID, MADE, SHA)
    assert lesson.origin.files == ("pkg/middleware/jwt.go", "pkg/middleware/jwt_test.go")
    assert (lesson.origin.source, lesson.confirmed) == (Source.AGENT, False)


@pytest.mark.parametrize(
    ("lock", "name"),
    [
        ("pkg/billing/tax.go", "domain/billing"),
        ("README.md", "codebase-insights"),
        (".github/ci.yml", "codebase-insights"),
        (f"{'x' * 200}/a.go", "codebase-insights"),
    ],
)
def test_what_an_agent_learned_is_in_the_file_of_the_domain_of_its_task(lock: str, name: str) -> None:
    session = made()
    record = session.tasks["task-001"]
    session.tasks["task-001"] = replace(record, task=replace(record.task, file_locks=(lock,)))
    (lesson,) = of_kind(session, "insight")
    assert get_knowledge_file(lesson).name == name


@pytest.mark.parametrize(
    "session",
    [made(state=TaskState.VALIDATED), made(state=TaskState.DROPPED), made(ending=Ending.POSTCHECK)],
    ids=["not landed", "dropped", "not passed"],
)
def test_words_of_work_that_did_not_pass_or_land_are_not_kept(session: Session) -> None:
    assert of_kind(session, "insight") == []


def test_a_failed_check_teaches_with_what_passed_later() -> None:
    output = "`pytest` exited with 1:\ntests/test_jwt.py::test_expiry FAILED\nE  assert 'UTC' in stamp\n1 failed"
    red = fails("checks", output, "`pytest` exited with 1")
    (lesson,) = of_kind(made(verdicts=(red,)), "mistake")
    assert "a check failed: `pytest` exited with 1: tests/test_jwt.py::test_expiry FAILED" in lesson.text
    assert lesson.text.endswith("What landed changed pkg/middleware/jwt.go, pkg/middleware/jwt_test.go")
    assert lesson.origin.source is Source.MACHINE
    assert of_kind(made(verdicts=(red,), state=TaskState.FAILED), "mistake") == [], "what would pass is not known"


def test_a_rejection_by_a_reviewer_teaches_also_when_nothing_landed() -> None:
    session = made(verdicts=(fails("validator-1", "tokens never expire", "no expiry"),), state=TaskState.FAILED)
    (lesson,) = of_kind(session, "mistake")
    assert "a reviewer rejected it: no expiry: tokens never expire" in lesson.text
    assert lesson.origin.source is Source.AGENT
    assert distill_lessons(session, failure_notes=False) == ()


@pytest.mark.parametrize(
    ("first", "ending", "expected"),
    [
        ("haiku", Ending.FAILED, "worker with haiku did not do it in 1 attempt, worker with opus did"),
        ("haiku", Ending.LOST, None),
        ("opus", Ending.FAILED, None),
    ],
)
def test_a_task_that_another_model_could_do_teaches_who_should_get_the_next_one(
    first: str, ending: Ending, expected: str | None
) -> None:
    session = made()
    record = session.attempts[MADE]
    ended, attempt = replace(record.ended or AttemptOutcome(ending=ending), ending=ending), record.attempt
    session.attempts[MADE] = replace(record, attempt=replace(attempt, model=first), ended=ended)
    again = replace(attempt, id=f"{ID}.task-001.worker.2", n=2, model="opus")
    session.attempts[again.id] = replace(
        record, attempt=again, ended=replace(ended, ending=Ending.PASSED), intended_at=record.intended_at + 1
    )
    found = of_kind(session, "allocation")
    title = session.tasks["task-001"].task.title
    assert [each.text for each in found] == ([f"{title}: {expected}"] if expected else [])
    assert all(get_knowledge_file(each).name == "allocation-learnings" for each in found)


def test_an_answer_to_an_agent_is_a_preference_and_a_guess_is_not() -> None:
    story = Story().working()
    asked = QuestionAsked(
        attempt=MADE, question=Question(text="Which store?", guess="SQLite", options=("SQLite", "a file"))
    )
    for event in consequences_of(story.session, asked, story.now):
        story.tell(event)
    (gate,) = [each.event.gate for each in story.recorded if isinstance(each.event, GateOpened)]
    guessed = replay([*story.recorded])
    guessed.answers[gate.id] = Answer(choice="guess", by="default")
    assert of_kind(guessed, "wish") == []
    story.tell(GateAnswered(gate=gate.id, answer=Answer(choice="answer", note="2", by="ann")))
    (lesson,) = of_kind(story.session, "wish")
    assert lesson.text == "asked 'Which store?', a person answered: a file"
    assert lesson.confirmed
    assert lesson.origin.files == ("pkg/middleware/", "internal/auth/")


def test_a_fault_that_a_person_found_is_a_confirmed_lesson() -> None:
    session = made()
    work = FixedWork(session="ses-1", tasks=("task-009",), title="Add a login", commit="d" * 40)
    session.fixes["task-001"] = FixRequested(task="task-001", work=work, wrong="it accepts empty names", by="ann")
    (lesson,) = of_kind(session, "fix")
    assert lesson.text.startswith("Add a login: it accepts empty names. What landed changed pkg/middleware/jwt.go")
    assert (lesson.confirmed, lesson.origin.source) == (True, Source.PERSON)


@settings(max_examples=int(os.environ.get("BLUEFLAME_EXAMPLES", "15")))
@given(worlds(most=5))
def test_a_session_teaches_the_same_however_often_it_is_read(world: Simulation) -> None:
    for _ in range(5_000):
        if not world.step():
            break
    session = replay(world.journal)
    lessons = distill_lessons(session)
    assert lessons == distill_lessons(replay(world.journal))
    assert len({lesson.key for lesson in lessons}) == len(lessons)
    assert all(len(lesson.text.splitlines()) == 1 for lesson in lessons)
    landed = set(session.list_in_state(TaskState.MERGED))
    assert {lesson.origin.task for lesson in lessons if lesson.about == "insight"} <= landed
