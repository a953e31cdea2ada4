"""Propose that lessons become instructions: lines for AGENTS.md or CLAUDE.md, with what speaks for each.

Only what a person wrote or confirmed is proposed, and it lands only where a person approves the changeset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blueflame.model.memory import Lesson
from blueflame.text.format import format_count
from blueflame.text.sanitize import clean_line, shorten_line

MAX_PROPOSED = 20
MAX_LINE_CHARS = 400
HEADING = "## Lessons"
MARK = "<!-- added by 'blueflame memory propose' from lessons that a person confirmed; edit them as you like -->"


def choose_proposed(lessons: Iterable[Lesson], text: str) -> tuple[Lesson, ...]:
    """Choose confirmed lessons that hold and are not in the text yet, the most helpful first."""
    known = _fold(text)
    open_ones = {
        _fold(each.text): each
        for each in sorted(lessons, key=lambda each: (each.origin.helped, each.origin.at, each.key))
        if each.confirmed and not (each.faded or each.stale or each.superseded_by) and _fold(each.text) not in known
    }
    return tuple(reversed(open_ones.values()))[:MAX_PROPOSED]


def add_lessons(text: str, lessons: Sequence[Lesson]) -> str:
    """Add a line for each; nothing else of the text changes."""
    lines = [f"- {shorten_line(each.text, MAX_LINE_CHARS)}\n" for each in lessons]
    if MARK not in text:
        before = text if not text or text.endswith("\n") else text + "\n"
        return "".join([before, "\n" if before else "", f"{HEADING}\n\n{MARK}\n", *lines])
    head, mark, rest = text.partition(MARK)
    old = rest.splitlines(keepends=True)
    at = next((n for n, line in enumerate(old) if n and not line.startswith("- ")), len(old))
    if old and not old[at - 1].endswith("\n"):
        old[at - 1] += "\n"
    return "".join([head, mark, *(old[:at] or ["\n"]), *lines, *old[at:]])


def describe_evidence(lessons: Iterable[Lesson]) -> str:
    """What speaks for each: where it comes from, and what became of attempts that were given it."""
    return "\n".join(_describe(each) for each in lessons)


def _describe(lesson: Lesson) -> str:
    origin = lesson.origin
    facts = [lesson.key, f"from {origin.session} {origin.task}".strip()]
    facts += [f"commit {origin.commit[:12]}"] if origin.commit else []
    facts += [f"about {', '.join(origin.files[:5])}"] if origin.files else []
    used = f"given to {format_count(origin.used, 'attempt')}, {origin.helped} passed at once"
    facts += [used if origin.used else "not given to an attempt yet"]
    return clean_line(f"- {shorten_line(lesson.text, MAX_LINE_CHARS)} ({'; '.join(facts)})")


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
