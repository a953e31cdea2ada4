"""Questions of agents to a person: how one is read, how many there may be, and what came of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.model.attempt import CURATION_SUBJECT, SIZE_SUBJECT, Attempt, AttemptOutcome, Ending
from blueflame.model.event import Event, GateAnswered
from blueflame.model.gate import Answer, Gate, GateKind, build_gate_id
from blueflame.model.question import MAX_OPTIONS, Clarification, Question, find_question_problem
from blueflame.session.retries import is_blameless, truncate_text
from blueflame.session.state import Session

ANSWER, GUESS = "answer", "guess"
MAX_QUESTION_CHARS, MAX_GUESS_CHARS = 1_500, 500
MAX_OPTION_CHARS = 200
MAX_ANSWER_CHARS = 2_000
MAX_SHOWN_CHARS = 300  # of a question, beside the assumption


def parse_question(found: Mapping[str, Any] | None) -> Question | None:
    """Read what an agent asks; what is too long is cut, and says so. None if it is no question."""
    if found is None or find_question_problem(found):
        return None
    return Question(
        text=truncate_text(found["question"].strip(), MAX_QUESTION_CHARS),
        guess=truncate_text(found.get("guess", "").strip(), MAX_GUESS_CHARS),
        options=tuple(
            truncate_text(option.strip(), MAX_OPTION_CHARS) for option in found.get("options", [])[:MAX_OPTIONS]
        ),
    )


def count_questions_left(session: Session, subject: str) -> int:
    """Count how many more questions the agents of a task, a plan or a merge may ask. One that sizes may ask none: a
    request that leaves something open is planned, and a planner can ask. Nor one that curates: it leaves what is open.
    """
    if subject in (SIZE_SUBJECT, CURATION_SUBJECT):
        return 0
    return max(session.limits.max_questions - session.gate_counts.get((GateKind.CLARIFICATION, subject), 0), 0)


def find_question_gate(session: Session, attempt: Attempt) -> Gate | None:
    """Return the open question of an attempt."""
    name = session.gate_subjects.get((GateKind.CLARIFICATION, attempt.subject))
    gate = session.open_gates[name] if name is not None else None
    return gate if gate is not None and gate.evidence["attempt"] == attempt.id else None


def is_question_kept(session: Session, attempt: Attempt, ended: AttemptOutcome) -> bool:
    """Whether the open question of an attempt that has ended still matters: the next attempt gets the answer.

    Not if a person ended it, and not if it failed: the next attempt asks again if it has to.
    """
    by_person = ended.ending is Ending.CANCELLED and attempt.id not in session.halted
    return is_blameless(attempt, ended) and not by_person


def find_deadline(gate: Gate) -> float | None:
    """Return when the agent continues without an answer; None if it waits without limit, as all other gates do."""
    return gate.evidence.get("until") if gate.kind is GateKind.CLARIFICATION else None


def find_late_answer(session: Session, name: str, now: float) -> tuple[Event, ...]:
    """Answer a question that has waited for too long; nothing if it is settled, or there is time left."""
    gate = session.open_gates.get(name)
    until = find_deadline(gate) if gate is not None else None
    if until is None or now < until:
        return ()
    return (GateAnswered(gate=name, answer=Answer(choice=GUESS, note="no answer in time", by="default")),)


def find_answer_text(gate: Gate, answer: Answer) -> str:
    """Return the words for the agent; empty when it continues with its guess. A number chooses one of its options."""
    if answer.choice != ANSWER:
        return ""
    note, options = answer.note.strip(), list(gate.evidence["options"])
    chosen = int(note) if note.isascii() and note.isdecimal() and len(note) < 3 else 0
    return str(options[chosen - 1]) if 0 < chosen <= len(options) else note


def list_clarifications(session: Session, subject: str) -> tuple[Clarification, ...]:
    """List the questions about a task, a plan or a merge that are settled, oldest first."""
    times = session.gate_counts.get((GateKind.CLARIFICATION, subject), 0)
    gates = (session.gates[build_gate_id(GateKind.CLARIFICATION, subject, n)] for n in range(1, times + 1))
    return tuple(found for gate in gates if (found := _find_clarification(session, gate)) is not None)


def _find_clarification(session: Session, gate: Gate) -> Clarification | None:
    answer = session.answers.get(gate.id)
    if answer is not None:
        return Clarification(question=read_question(gate), answer=find_answer_text(gate, answer), by=answer.by)
    record = session.attempts[gate.evidence["attempt"]]
    passed = record.ended is not None and record.ended.passed
    return Clarification(question=read_question(gate)) if gate.id in session.withdrawn and passed else None


def read_question(gate: Gate) -> Question:
    given = gate.evidence
    return Question(text=str(given["question"]), guess=str(given["guess"]), options=tuple(given["options"]))


def list_assumptions(session: Session, subject: str) -> Iterator[str]:
    """Yield what agents assumed, because no person answered."""
    for each in list_clarifications(session, subject):
        if not each.answer:
            asked, guess = (" ".join(text.split()) for text in (each.question.text, each.question.guess))
            assumed = f"assumed {guess!r}" if guess else "continued with a guess that it did not name"
            yield f"asked {truncate_text(asked, MAX_SHOWN_CHARS)!r}, got no answer and {assumed}"


def describe_answer(gate: Gate, answer: Answer) -> str:
    """Word the answer for the agent that waits for it."""
    text = find_answer_text(gate, answer)
    if text:
        return text
    guess = str(gate.evidence["guess"])
    return f"No answer. Continue with your best guess{f': {guess}' if guess else ''}. State the assumption at the end."
