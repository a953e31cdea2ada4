"""What an agent asks a person while it works, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass


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
