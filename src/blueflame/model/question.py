"""What an agent asks a person while it works, and what came of it."""

from __future__ import annotations

from blueflame.lazy_dataclass import dataclass

TYPE_CHECKING = False  # typing alone would cost every warden some 8 ms
if TYPE_CHECKING:
    from typing import Any, TypeGuard

MAX_OPTIONS = 6
QUESTION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "description": "one precise question"},
        "guess": {"type": "string", "description": "what you do without an answer"},
        "options": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_OPTIONS},
    },
    "required": ["question", "guess"],
    "additionalProperties": False,
}
"""Of what an agent asks."""


def find_question_problem(found: object) -> str:
    """Return why this is no question; empty if it is one. A guess may be missing."""
    if not isinstance(found, dict):
        return "a question is an object with question, guess and options"
    if odd := sorted(map(str, set(found) - set(QUESTION_SCHEMA["properties"]))):
        return f"{odd[0][:80]!r} is unknown: a question has question, guess and options"
    text, guess, options = found.get("question"), found.get("guess", ""), found.get("options", [])
    if not isinstance(text, str) or not text.strip():
        return "question must be a text that is not empty"
    if not isinstance(guess, str):
        return "guess must be a text"
    return "" if _is_list_of_texts(options) else "options must be a list of texts"


def _is_list_of_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    guess: str = ""  # what the agent does without an answer
    options: tuple[str, ...] = ()  # answers that it suggests


@dataclass(frozen=True, slots=True, kw_only=True)
class Clarification:
    """A question with its answer; without one the agent continued with its guess."""

    question: Question
    answer: str = ""
    by: str = ""
