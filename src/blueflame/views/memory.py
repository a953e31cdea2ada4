"""What is remembered of earlier sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from blueflame.model.memory import (
    RECORD_KIND_NAMES,
    Lesson,
    MemoryRecord,
    SessionSummary,
    TaskFailure,
    TaskResult,
    get_headline,
)
from blueflame.model.settings import Settings
from blueflame.text.format import format_count, format_dollars
from blueflame.views.parts import NamedValue


def describe_memory(settings: Settings) -> str:
    """Whether and where sessions are remembered."""
    if not settings.beads.enabled or settings.memory.provider == "none":
        return "sessions are not remembered (beads.enabled, memory.provider); existing records stay"
    also = ", mirrored to Beads" if settings.memory.provider == "beads" else ""
    return f"in .blueflame/memory.db{also}; planners get {settings.memory.context_tokens:,} tokens of it at most"


def list_record_facts(record: MemoryRecord) -> tuple[NamedValue, ...]:
    """What it says, and where it comes from."""
    return tuple(fact for fact in (*_list_contents(record), *_list_origin(record)) if fact.text)


def _list_contents(record: MemoryRecord) -> Iterator[NamedValue]:
    if isinstance(record, SessionSummary):
        landed = f"{record.merged} of {record.tasks} landed, {record.failed} failed, {record.cycles} cycles"
        yield NamedValue("Request", record.request)
        yield NamedValue("Outcome", f"{record.outcome or 'not finished'} {record.reason}".strip())
        yield NamedValue("Tasks", landed)
        yield NamedValue("Used", f"{record.tokens:,} tokens in {record.seconds:.0f} s")
    elif isinstance(record, Lesson):
        yield NamedValue("Lesson", record.text)
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
    yield NamedValue(
        "Helped", f"{origin.helped} of the {origin.used} sessions whose planner got it" if origin.used else ""
    )
    yield NamedValue("Faded", "only one line of it is left" if record.faded else "")


def build_records_json(records: Sequence[MemoryRecord], settings: Settings) -> dict[str, Any]:
    return {
        "enabled": settings.beads.enabled,
        "provider": settings.memory.provider,
        "memories": [_build_record_json(each) for each in records],
    }


def _build_record_json(record: MemoryRecord) -> dict[str, Any]:
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
        "files": list(origin.files),
        "source": origin.source.value,
        "used": origin.used,
        "helped": origin.helped,
        "faded": record.faded,
    }
