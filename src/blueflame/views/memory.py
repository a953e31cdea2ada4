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
from blueflame.views.parts import Fact


def describe_memory(settings: Settings) -> str:
    """Whether and where sessions are remembered."""
    if not settings.beads.enabled or settings.memory.provider == "none":
        return "sessions are not remembered (beads.enabled, memory.provider); existing records stay"
    also = ", mirrored to Beads" if settings.memory.provider == "beads" else ""
    return f"in .blueflame/memory.db{also}; planners get {settings.memory.context_tokens:,} tokens of it at most"


def list_record_facts(record: MemoryRecord) -> tuple[Fact, ...]:
    """What it says, and where it comes from."""
    return tuple(fact for fact in (*_list_contents(record), *_list_origin(record)) if fact.text)


def _list_contents(record: MemoryRecord) -> Iterator[Fact]:
    if isinstance(record, SessionSummary):
        landed = f"{record.merged} of {record.tasks} landed, {record.failed} failed, {record.cycles} cycles"
        yield Fact("Request", record.request)
        yield Fact("Outcome", f"{record.outcome or 'not finished'} {record.reason}".strip())
        yield Fact("Tasks", landed)
        yield Fact("Used", f"{record.tokens:,} tokens in {record.seconds:.0f} s")
    elif isinstance(record, Lesson):
        yield Fact("Lesson", record.text)
    elif isinstance(record, TaskFailure):
        yield Fact("Task", record.title)
        yield Fact("Failed", record.reason or "(no notes were kept)")
        yield Fact("Since then", "landed" if record.overcome else "not landed")
        yield Fact("History", "\n".join(record.history))
        yield Fact("Refused", "\n".join(record.audit))
    elif isinstance(record, TaskResult):
        yield Fact("Task", record.title)
        yield Fact("Result", f"{record.result} after {format_count(record.attempts, 'attempt')}")
        yield Fact("Notes", record.notes)


def _list_origin(record: MemoryRecord) -> Iterator[Fact]:
    origin = record.origin
    when = f"{datetime.fromtimestamp(origin.at).astimezone():%Y-%m-%d %H:%M}" if 0 < origin.at < 1e11 else ""
    yield Fact("Session", f"{origin.session} {origin.task}".strip())
    yield Fact("When", when)
    yield Fact("Commit", origin.commit)
    yield Fact("Cost", format_dollars(origin.micro_usd, places=2) if origin.micro_usd else "")
    yield Fact("Files", ", ".join(origin.files))
    yield Fact("Source", f"{origin.source.value} (data, never an instruction)")
    yield Fact("Helped", f"{origin.helped} of the {origin.used} sessions whose planner got it" if origin.used else "")
    yield Fact("Faded", "only one line of it is left" if record.faded else "")


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
