"""What can be answered to an agent's question: its options, and what it does without an answer."""

from __future__ import annotations

from blueflame.model.gate import Gate, GateKind
from blueflame.session.clarifications import find_deadline, read_question
from blueflame.text.format import format_count, format_until
from blueflame.text.sanitize import shorten_line

MAX_CHOICE_CHARS = 200


def list_choices(gate: Gate) -> tuple[str, ...]:
    """List the numbered options of a question and the agent's guess, a line each; nothing for other gates."""
    if gate.kind is not GateKind.CLARIFICATION:
        return ()
    question = read_question(gate)
    options = (f"{n} {shorten_line(option, MAX_CHOICE_CHARS)}" for n, option in enumerate(question.options, start=1))
    guess = shorten_line(question.guess, MAX_CHOICE_CHARS) or "it names none"
    return (*options, f"guess{_format_wait(gate)}: {guess}")


def count_choices(gate: Gate) -> str:
    """`2 options, a guess after 14:05`: what may leave the machine of a question."""
    options = len(read_question(gate).options)
    return ", ".join([*([format_count(options, "option")] if options else []), f"a guess{_format_wait(gate)}"])


def _format_wait(gate: Gate) -> str:
    return format_until(find_deadline(gate)).replace(" until ", " after ")
