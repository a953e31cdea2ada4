"""What a planner is told of earlier sessions: the newest and what is nearest to the request, within a budget.

However many sessions there were, no more than the budget is told. A token is reckoned at three bytes: more than prose
and code come to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from blueflame.memory.records import ages
from blueflame.model.memory import (
    Lesson,
    MemoryContext,
    MemoryRecord,
    SessionSummary,
    TaskFailure,
    TaskResult,
    get_headline,
)
from blueflame.text.event_lines import one_line
from blueflame.text.tokens import tokens_of

MOST = 20  # failures and sessions (MEM-06)
WORD = re.compile(r"\w{3,}")
EVERYWHERE = (
    "the and for with that this from into when then than are was were has have not but all any can should would make "
    "add use new our its file files code task tasks please"
)
COMMON = frozenset(EVERYWHERE.split())
SHORT_PAST = 5  # sessions of the cost history


def recollect(records: Iterable[MemoryRecord], *, request: str, budget: int, session: str = "") -> MemoryContext:
    """`session` is the one that asks: what it did itself it knows from elsewhere."""
    known = [record for record in records if record.origin.session != session]
    if not known or budget <= 0:
        return MemoryContext()
    old = ages(known)
    wanted = words_of(request)
    ranked = sorted(known, key=lambda record: (-_worth(record, old[record.origin.session], wanted), record.key))
    costs = tuple(line for line in (_cost_history(known, old),) if line and tokens_of(line) <= budget)
    chosen = _fitting(_bounded(ranked), old, budget - sum(map(tokens_of, costs)))
    ordered = sorted(chosen, key=_place)  # within a kind the worthiest first, as they were chosen
    lines = (*costs, *(tell(record, old[record.origin.session]) for record in ordered))
    return MemoryContext(
        lines=lines, keys=tuple(record.key for record in ordered), tokens=sum(tokens_of(line) for line in lines)
    )


def words_of(text: str) -> frozenset[str]:
    """The words that say what it is about; a path is taken apart."""
    return frozenset(word for word in WORD.findall(text.casefold().replace("_", " ")) if word not in COMMON)


def _worth(record: MemoryRecord, age: int, wanted: frozenset[str]) -> float:
    about = words_of(" ".join([get_headline(record), *record.origin.files, getattr(record, "reason", "")]))
    near = len(wanted & about) / len(wanted) if wanted else 0.0
    tried = record.origin.helped / record.origin.used if record.origin.used else 0.5
    return KIND_WORTH[type(record)](record) + 2 / (1 + age) + 3 * near + tried - (0.5 if record.faded else 0.0)


def _of_failure(record: TaskFailure) -> float:
    return 2.0 if record.overcome else 3.0


def _of_lesson(record: Lesson) -> float:
    return {"wish": 3.0, "pattern": 2.0}.get(record.about, 1.0)


KIND_WORTH: Mapping[type, Callable[[Any], float]] = {
    TaskFailure: _of_failure,
    Lesson: _of_lesson,
    SessionSummary: lambda _record: 1.5,
    TaskResult: lambda _record: 1.0,
}


def _bounded(ranked: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    counted = [record for record in ranked if isinstance(record, TaskFailure | SessionSummary)]
    left_out = {record.key for record in counted[MOST:]}
    return [record for record in ranked if record.key not in left_out]


def _fitting(ranked: Sequence[MemoryRecord], old: Mapping[str, int], budget: int) -> list[MemoryRecord]:
    chosen, used = list[MemoryRecord](), 0
    for record in ranked:
        cost = tokens_of(tell(record, old[record.origin.session]))
        if used + cost <= budget:
            chosen.append(record)
            used += cost
    return chosen


def _place(record: MemoryRecord) -> int:
    order = (TaskFailure, Lesson, SessionSummary, TaskResult)
    return order.index(type(record))


def tell(record: MemoryRecord, age: int) -> str:
    """As one line, from which a planner sees what kind of knowledge it is and how old."""
    return one_line(SENTENCES[type(record)](record, _where(record, age)))


def _where(record: MemoryRecord, age: int) -> str:
    when = "in the newest session" if age == 0 else f"{age} session{'s' if age > 1 else ''} before that"
    files = ", ".join(record.origin.files[:8])
    commit = f", commit {record.origin.commit[:10]}" if record.origin.commit else ""
    return f"({when}{commit}{f', files: {files}' if files else ''})"


def _failed(record: TaskFailure, where: str) -> str:
    ended = "landed in the end" if record.overcome else "never landed"
    parts = [
        f"FAILED BEFORE: {record.title} {where}, {record.retries} retries, {ended}",
        record.reason,
        *record.history,
        *(f"refused: {line}" for line in record.audit),
    ]
    return "; ".join(part for part in parts if part)


def _lesson(record: Lesson, where: str) -> str:
    kind = {"pattern": "A SPLIT THAT WORKED", "wish": "A PERSON'S WORD"}.get(record.about, "A NOTE")
    return f"{kind}: {record.text} {where}"


def _session(record: SessionSummary, where: str) -> str:
    ended = f"{record.outcome or 'not finished'}{f' ({record.reason})' if record.reason else ''}"
    return (
        f"A SESSION: {record.request} {where}: {ended}, {record.merged} of {record.tasks} tasks landed, "
        f"{record.failed} failed, {record.cycles} cycles, ${record.origin.micro_usd / 1e6:.2f}"
    )


def _result(record: TaskResult, where: str) -> str:
    notes = f"; reviewer: {record.notes}" if record.notes else ""
    return f"DONE BEFORE: {record.title} {where}, {record.attempts} attempts{notes}"


SENTENCES: Mapping[type, Callable[[Any, str], str]] = {
    TaskFailure: _failed,
    Lesson: _lesson,
    SessionSummary: _session,
    TaskResult: _result,
}


def _cost_history(records: Sequence[MemoryRecord], old: Mapping[str, int]) -> str:
    """One line, whatever the number of sessions."""
    sessions = [each for each in records if isinstance(each, SessionSummary) and each.origin.micro_usd]
    newest = sorted(sessions, key=lambda each: (old[each.origin.session], each.key))[:SHORT_PAST]
    if not newest:
        return ""
    past = ", ".join(f"${each.origin.micro_usd / 1e6:.2f} for {each.tasks} tasks" for each in newest)
    return f"COSTS, newest session first: {past}"
