"""Word records for agents: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from blueflame.model.memory import Lesson, MemoryRecord, SessionSummary, TaskFailure, TaskResult
from blueflame.text.format import format_count, format_dollars
from blueflame.text.sanitize import clean_line
from blueflame.text.tokens import estimate_tokens

MAX_COST_SESSIONS = 5  # in the cost history
COST_TOKENS = 80  # for its line
MAX_NAMED_FILES = 8
LESSON_KINDS = {
    "pattern": "A SPLIT THAT WORKED",
    "wish": "A PERSON'S WORD",
    "fix": "A FAULT FOUND LATER",
    "mistake": "A MISTAKE",
    "insight": "KNOWN",
    "allocation": "WHO DID WELL",
}


def word_lesson(lesson: Lesson) -> str:
    """Without a date, a count or an id: the same lesson is the same line in every session."""
    files = ", ".join(lesson.origin.files[:MAX_NAMED_FILES])
    where = f" (files: {files})" if files else ""
    return clean_line(f"{LESSON_KINDS.get(lesson.about, 'A NOTE')}: {lesson.text}{where}")


def describe_record(record: MemoryRecord, age: int) -> str:
    """One line with the kind of the record, its content and its age."""
    return clean_line(SENTENCES[type(record)](record, _describe_origin(record, age)))


def _describe_origin(record: MemoryRecord, age: int) -> str:
    when = "in the newest session" if age == 0 else f"{age} session{'s' if age > 1 else ''} before that"
    files = ", ".join(record.origin.files[:MAX_NAMED_FILES])
    commit = f", commit {record.origin.commit[:10]}" if record.origin.commit else ""
    return f"({when}{commit}{f', files: {files}' if files else ''})"


def _describe_failure(record: TaskFailure, where: str) -> str:
    ended = "landed in the end" if record.overcome else "never landed"
    parts = [
        f"FAILED BEFORE: {record.title} {where}, retries: {record.retries}, {ended}",
        record.reason,
        *record.history,
        *(f"refused: {line}" for line in record.audit),
    ]
    return "; ".join(part for part in parts if part)


def _describe_session(record: SessionSummary, where: str) -> str:
    ended = f"{record.outcome or 'not finished'}{f' ({record.reason})' if record.reason else ''}"
    return (
        f"A SESSION: {record.request} {where}: {ended}, {record.merged} of {record.tasks} tasks landed, "
        f"{record.failed} failed, {format_count(record.cycles, 'cycle')}, {_format_cost(record)}"
    )


def _format_cost(record: SessionSummary) -> str:
    return format_dollars(record.origin.micro_usd, places=2)


def _describe_result(record: TaskResult, where: str) -> str:
    notes = f"; reviewer: {record.notes}" if record.notes else ""
    return f"DONE BEFORE: {record.title} {where}, {format_count(record.attempts, 'attempt')}{notes}"


SENTENCES: Mapping[type, Callable[[Any, str], str]] = {
    TaskFailure: _describe_failure,
    Lesson: lambda record, where: f"{LESSON_KINDS.get(record.about, 'A NOTE')}: {record.text} {where}",
    SessionSummary: _describe_session,
    TaskResult: _describe_result,
}


def describe_for_planner(records: Sequence[MemoryRecord], ages: Mapping[str, int]) -> tuple[str, ...]:
    """Word what a planner is given, by kind: what failed comes first. `ages`: how many sessions are newer than each."""
    ordered = sorted(records, key=lambda record: PLANNER_ORDER.index(type(record)))
    lines = (describe_record(record, ages.get(record.origin.session, 0)) for record in ordered)
    costs = _format_cost_history(records, ages)
    return (*((costs,) if costs else ()), *lines)


PLANNER_ORDER = (TaskFailure, Lesson, SessionSummary, TaskResult)


def _format_cost_history(records: Sequence[MemoryRecord], ages: Mapping[str, int]) -> str:
    """One line about the newest sessions among them."""
    sessions = [each for each in records if isinstance(each, SessionSummary) and each.origin.micro_usd]
    newest = sorted(sessions, key=lambda each: (ages.get(each.origin.session, 0), each.key))[:MAX_COST_SESSIONS]
    if not newest:
        return ""
    past = ", ".join(
        f"{format_dollars(each.origin.micro_usd, places=2)} for {format_count(each.tasks, 'task')}" for each in newest
    )
    line = f"COSTS, newest session first: {past}"
    return line if estimate_tokens(line) <= COST_TOKENS else ""
