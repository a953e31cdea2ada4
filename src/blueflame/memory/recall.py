"""Choose what a planner gets from earlier sessions: the newest and the most similar to the request, within a budget.

A token is estimated as three bytes, which is more tokens than prose and code really have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from blueflame.memory.records import compute_ages
from blueflame.model.memory import (
    Lesson,
    MemoryContext,
    MemoryRecord,
    SessionSummary,
    TaskFailure,
    TaskResult,
    get_headline,
)
from blueflame.session.sizing.similar import extract_words
from blueflame.text.format import format_dollars
from blueflame.text.sanitize import clean_line
from blueflame.text.tokens import estimate_tokens

MAX_COUNTED = 20  # failures and sessions together
MAX_COST_SESSIONS = 5  # in the cost history


def recall_records(records: Iterable[MemoryRecord], *, request: str, budget: int, session: str = "") -> MemoryContext:
    """`session` is the one that asks: its own records are left out."""
    known = [record for record in records if record.origin.session != session]
    if not known or budget <= 0:
        return MemoryContext()
    old = compute_ages(known)
    wanted = extract_words(request)
    ranked = sorted(known, key=lambda record: (-_score_record(record, old[record.origin.session], wanted), record.key))
    costs = tuple(line for line in (_format_cost_history(known, old),) if line and estimate_tokens(line) <= budget)
    chosen = _fit_budget(_limit_counted(ranked), old, budget - sum(map(estimate_tokens, costs)))
    ordered = sorted(chosen, key=_rank_kind)  # within a kind by score, as they were chosen
    lines = (*costs, *(describe_record(record, old[record.origin.session]) for record in ordered))
    return MemoryContext(
        lines=lines, keys=tuple(record.key for record in ordered), tokens=sum(estimate_tokens(line) for line in lines)
    )


def _score_record(record: MemoryRecord, age: int, wanted: frozenset[str]) -> float:
    about = extract_words(" ".join([get_headline(record), *record.origin.files, getattr(record, "reason", "")]))
    near = len(wanted & about) / len(wanted) if wanted else 0.0
    tried = record.origin.helped / record.origin.used if record.origin.used else 0.5
    return KIND_SCORES[type(record)](record) + 2 / (1 + age) + 3 * near + tried - (0.5 if record.faded else 0.0)


def _score_failure(record: TaskFailure) -> float:
    return 2.0 if record.overcome else 3.0


def _score_lesson(record: Lesson) -> float:
    return {"wish": 3.0, "fix": 3.0, "pattern": 2.0}.get(record.about, 1.0)


KIND_SCORES: Mapping[type, Callable[[Any], float]] = {
    TaskFailure: _score_failure,
    Lesson: _score_lesson,
    SessionSummary: lambda _record: 1.5,
    TaskResult: lambda _record: 1.0,
}


def _limit_counted(ranked: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    counted = [record for record in ranked if isinstance(record, TaskFailure | SessionSummary)]
    left_out = {record.key for record in counted[MAX_COUNTED:]}
    return [record for record in ranked if record.key not in left_out]


def _fit_budget(ranked: Sequence[MemoryRecord], old: Mapping[str, int], budget: int) -> list[MemoryRecord]:
    chosen, used = list[MemoryRecord](), 0
    for record in ranked:
        cost = estimate_tokens(describe_record(record, old[record.origin.session]))
        if used + cost <= budget:
            chosen.append(record)
            used += cost
    return chosen


def _rank_kind(record: MemoryRecord) -> int:
    order = (TaskFailure, Lesson, SessionSummary, TaskResult)
    return order.index(type(record))


def describe_record(record: MemoryRecord, age: int) -> str:
    """One line with the kind of the record, its content and its age."""
    return clean_line(SENTENCES[type(record)](record, _describe_origin(record, age)))


def _describe_origin(record: MemoryRecord, age: int) -> str:
    when = "in the newest session" if age == 0 else f"{age} session{'s' if age > 1 else ''} before that"
    files = ", ".join(record.origin.files[:8])
    commit = f", commit {record.origin.commit[:10]}" if record.origin.commit else ""
    return f"({when}{commit}{f', files: {files}' if files else ''})"


def _describe_failure(record: TaskFailure, where: str) -> str:
    ended = "landed in the end" if record.overcome else "never landed"
    parts = [
        f"FAILED BEFORE: {record.title} {where}, {record.retries} retries, {ended}",
        record.reason,
        *record.history,
        *(f"refused: {line}" for line in record.audit),
    ]
    return "; ".join(part for part in parts if part)


LESSON_KINDS = {"pattern": "A SPLIT THAT WORKED", "wish": "A PERSON'S WORD", "fix": "A FAULT FOUND LATER"}


def _describe_lesson(record: Lesson, where: str) -> str:
    return f"{LESSON_KINDS.get(record.about, 'A NOTE')}: {record.text} {where}"


def _describe_session(record: SessionSummary, where: str) -> str:
    ended = f"{record.outcome or 'not finished'}{f' ({record.reason})' if record.reason else ''}"
    return (
        f"A SESSION: {record.request} {where}: {ended}, {record.merged} of {record.tasks} tasks landed, "
        f"{record.failed} failed, {record.cycles} cycles, {format_dollars(record.origin.micro_usd, places=2)}"
    )


def _describe_result(record: TaskResult, where: str) -> str:
    notes = f"; reviewer: {record.notes}" if record.notes else ""
    return f"DONE BEFORE: {record.title} {where}, {record.attempts} attempts{notes}"


SENTENCES: Mapping[type, Callable[[Any, str], str]] = {
    TaskFailure: _describe_failure,
    Lesson: _describe_lesson,
    SessionSummary: _describe_session,
    TaskResult: _describe_result,
}


def _format_cost_history(records: Sequence[MemoryRecord], old: Mapping[str, int]) -> str:
    """One line about the newest sessions."""
    sessions = [each for each in records if isinstance(each, SessionSummary) and each.origin.micro_usd]
    newest = sorted(sessions, key=lambda each: (old[each.origin.session], each.key))[:MAX_COST_SESSIONS]
    if not newest:
        return ""
    past = ", ".join(f"{format_dollars(each.origin.micro_usd, places=2)} for {each.tasks} tasks" for each in newest)
    return f"COSTS, newest session first: {past}"
