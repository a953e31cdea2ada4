from __future__ import annotations

from dataclasses import replace

from blueflame.cli.console import render_text
from blueflame.cli.live.frame import SessionFrame
from blueflame.cli.render.status import render_gates
from blueflame.model.attempt import Duty
from blueflame.model.event import GateOpened, JournalEntry, QuestionAsked
from blueflame.model.question import Question
from blueflame.session.gates.questions import open_clarification_gate
from blueflame.text.notifications import build_notifications
from blueflame.views.session import build_gates_json
from support.recorded_session import Story

QUESTION = Question(text="Which store?", guess="SQLite,\nas elsewhere", options=("Postgres\x1b[31m", "SQLite"))


def ask(question: Question = QUESTION, *, wait: float = 0.0) -> tuple[Story, GateOpened]:
    story = Story().planned().working()
    story.session.limits = replace(story.session.limits, question_wait=wait)
    attempt = next(each for each in story.session.live.values() if each.duty is Duty.MAKE)
    story.tell(QuestionAsked(attempt=attempt.id, question=question))
    opened = open_clarification_gate(story.session, attempt, question, story.now)
    return story.tell(opened), opened


def test_the_options_and_the_guess_are_shown_beside_the_question() -> None:
    story, opened = ask()
    listed = render_text(render_gates(list(story.session.open_gates.values())), width=100)
    lines = [line.strip() for line in listed.splitlines()]
    assert lines[-4:-1] == ["1 Postgres␛[31m", "2 SQLite", "guess: SQLite, as elsewhere"]
    watched = render_text(SessionFrame(story.session, story.now), width=100)
    assert "1 Postgres␛[31m · 2 SQLite · guess: SQLite, as elsewhere" in watched
    (as_json,) = build_gates_json([opened.gate])
    assert (as_json["evidence"]["guess"], len(as_json["evidence"]["options"])) == (QUESTION.guess, 2)


def test_a_question_without_options_or_guess_says_so() -> None:
    story, _opened = ask(Question(text="Which store?"))
    assert "guess: it names none" in render_text(render_gates(list(story.session.open_gates.values())), width=100)


def test_a_notification_counts_the_options_and_keeps_the_words_of_the_agent_on_the_machine() -> None:
    story, opened = ask(wait=60.0)
    (notice,) = build_notifications(story.session, [JournalEntry(99, story.now, opened)])
    assert "2 options, a guess after " in notice.words
    assert "Postgres" not in notice.words
