"""What is remembered of earlier sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from blueflame.knowledge.effect import Effect
from blueflame.lazy_dataclass import dataclass
from blueflame.memory.shelves import RefusedRecord
from blueflame.model.attempt import AttemptRecord
from blueflame.model.memory import (
    RECORD_KIND_NAMES,
    GivenLesson,
    Lesson,
    MemoryRecord,
    SessionSummary,
    TaskFailure,
    TaskResult,
    get_headline,
    get_knowledge_file,
)
from blueflame.model.settings import Settings
from blueflame.session.state import Session
from blueflame.text.format import format_count, format_dollars
from blueflame.views.parts import NamedValue, pick


def describe_memory(settings: Settings) -> str:
    """Whether and where sessions are remembered."""
    if not settings.beads.enabled or settings.memory.provider == "none":
        return "sessions are not remembered (beads.enabled, memory.provider); existing records stay"
    names = ["Beads"] if settings.memory.provider == "beads" else []
    names += [f"Redis ({len(settings.memory.mirrors)})"] if settings.memory.mirrors else []
    also = f", mirrored to {' and '.join(names)}" if names else ""
    planners, others = settings.memory.context_tokens, settings.memory.lesson_tokens
    return f"in .blueflame/memory.db{also}; planners get {planners:,} tokens of it at most, other agents {others:,}"


def describe_shelf(lesson: Lesson) -> str:
    """The file of a lesson and its marks, on one line."""
    marks = {
        "confirmed": lesson.confirmed,
        "stale": lesson.stale,
        f"archived ({lesson.archived})": not lesson.is_active,
    }
    return ", ".join([get_knowledge_file(lesson).name, *(mark for mark, holds in marks.items() if holds)])


def list_record_facts(record: MemoryRecord, effect: Effect | None) -> tuple[NamedValue, ...]:
    """What it says, where it comes from, and whether it helps."""
    helped = NamedValue("Helped", effect.describe() if effect else "")
    return tuple(fact for fact in (*_list_contents(record), *_list_origin(record), helped) if fact.text)


def _list_contents(record: MemoryRecord) -> Iterator[NamedValue]:
    if isinstance(record, SessionSummary):
        landed = f"{record.merged} of {record.tasks} landed, {record.failed} failed, {record.cycles} cycles"
        yield NamedValue("Request", record.request)
        yield NamedValue("Outcome", f"{record.outcome or 'not finished'} {record.reason}".strip())
        yield NamedValue("Tasks", landed)
        yield NamedValue("Used", f"{record.tokens:,} tokens in {record.seconds:.0f} s")
    elif isinstance(record, Lesson):
        yield NamedValue("Lesson", record.text)
        yield NamedValue("File", describe_shelf(record))
        yield NamedValue("Symbols", ", ".join(record.symbols))
        yield NamedValue("Replaced by", record.superseded_by)
    elif isinstance(record, TaskFailure):
        yield NamedValue("Task", record.title)
        yield NamedValue("Failed", record.reason or "(no notes were kept)")
        yield NamedValue("Since then", "landed" if record.overcome else "not landed")
        yield NamedValue("History", "\n".join(record.history))
        yield NamedValue("Refused", "\n".join(record.audit))
    elif isinstance(record, TaskResult):
        yield NamedValue("Task", record.title)
        yield NamedValue("Result", f"{record.result} after {format_count(record.attempts, 'attempt')}")
        yield NamedValue("Notes", record.notes)


def _list_origin(record: MemoryRecord) -> Iterator[NamedValue]:
    origin = record.origin
    when = f"{datetime.fromtimestamp(origin.at).astimezone():%Y-%m-%d %H:%M}" if 0 < origin.at < 1e11 else ""
    yield NamedValue("Session", f"{origin.session} {origin.task}".strip())
    yield NamedValue("When", when)
    yield NamedValue("Commit", origin.commit)
    yield NamedValue("Cost", format_dollars(origin.micro_usd, places=2) if origin.micro_usd else "")
    yield NamedValue("Files", ", ".join(origin.files))
    yield NamedValue("Source", f"{origin.source.value} (data, never an instruction)")
    yield NamedValue("Faded", "only one line of it is left" if record.faded else "")


def build_records_json(
    records: Sequence[MemoryRecord],
    effects: Mapping[str, Effect],
    settings: Settings,
    refused: Sequence[RefusedRecord] = (),
    problems: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "enabled": settings.beads.enabled,
        "provider": settings.memory.provider,
        "memories": [_build_record_json(each, effects.get(each.key)) for each in records],
        "refused": [asdict(each) for each in refused],
        "problems": list(problems),
    }


def _build_record_json(record: MemoryRecord, effect: Effect | None) -> dict[str, Any]:
    origin = record.origin
    return {
        "key": record.key,
        "type": RECORD_KIND_NAMES[type(record)],
        "headline": get_headline(record),
        "session": origin.session,
        "task": origin.task or None,
        "commit": origin.commit or None,
        "at": origin.at,
        "cost_usd": origin.micro_usd / 1e6,
        **pick(origin, "files source used helped"),
        "effect": asdict(effect) | {"finding": effect.finding.value} if effect else None,
        "faded": record.faded,
        **_build_lesson_json(record),
    }


def _build_lesson_json(record: MemoryRecord) -> dict[str, Any]:
    """Null for what is no lesson."""
    found = record if isinstance(record, Lesson) else None
    return {
        "file": get_knowledge_file(found).name if found else None,
        "symbols": list(found.symbols) if found else None,
        "confirmed": found.confirmed if found else None,
        "stale": found.stale if found else None,
        "archived": found.archived or None if found else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRow:
    """A record that was chosen for an attempt, or for all of its session."""

    why: GivenLesson
    headline: str  # "" if it was forgotten since


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenView:
    """What an attempt was given from earlier sessions."""

    session: str
    attempt: str
    agent: str
    shared: tuple[GivenRow, ...]
    lessons: tuple[GivenRow, ...]
    is_recorded: bool  # False in journals of earlier versions, and where there was nothing to choose from


def list_given_keys(session: Session, record: AttemptRecord) -> list[str]:
    return [each.key for each in (*_list_shared(session), *(record.lessons or ()))]


def _list_shared(session: Session) -> tuple[GivenLesson, ...]:
    return session.shared.lessons if session.shared is not None else ()


def build_given_view(session: Session, record: AttemptRecord, known: Iterable[MemoryRecord]) -> GivenView:
    texts = {each.key: get_headline(each) for each in known}
    shared, own = (
        tuple(GivenRow(why=each, headline=texts.get(each.key, "")) for each in given)
        for given in (_list_shared(session), record.lessons or ())
    )
    return GivenView(
        session=session.id,
        attempt=record.attempt.id,
        agent=record.attempt.agent_id,
        shared=shared,
        lessons=own,
        is_recorded=record.lessons is not None,
    )


def describe_reason(why: GivenLesson) -> str:
    """`about src/a.py; words: parse, ledger; score 6.5`"""
    parts = [
        f"about {', '.join(why.files)}" if why.files else "",
        f"about the domain {why.domain}" if why.domain else "",
        f"words: {', '.join(why.words)}" if why.words else "",
        f"score {why.score:g}",
    ]
    return "; ".join(part for part in parts if part)


def build_given_json(view: GivenView) -> dict[str, Any]:
    return {
        **pick(view, "session attempt agent"),
        "recorded": view.is_recorded,
        "shared": [{"key": row.why.key, "headline": row.headline or None} for row in view.shared],
        "lessons": [
            {
                "key": row.why.key,
                "headline": row.headline or None,
                "files": list(row.why.files),
                "domain": row.why.domain or None,
                **pick(row.why, "words score left_out"),
            }
            for row in view.lessons
        ],
    }
