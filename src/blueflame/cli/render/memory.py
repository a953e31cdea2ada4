"""What is remembered, as a person reads it and as a machine does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
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
from blueflame.text.format import format_count
from blueflame.text.sanitize import clean_line, clean_text, shorten_line

MAX_ROWS = 60


def render_records(records: Sequence[MemoryRecord], settings: Settings) -> RenderableType:
    rows = [
        (
            Text(RECORD_KIND_NAMES[type(each)], "group"),
            Text(clean_text(each.key), "id"),
            shorten_line(clean_line(get_headline(each)), 60),
        )
        for each in records[:MAX_ROWS]
    ]
    more = len(records) - MAX_ROWS
    rest = Text(f"  … and {more:,} more; --json has all", "quiet") if more > 0 else None
    return stack_parts(
        Group(Heading("Memory", format_count(len(records), "record")), Text(f"  {describe_memory(settings)}", "quiet")),
        build_columns(rows, whole=(0, 1)) if rows else Text("Nothing is remembered yet.", "quiet"),
        rest,
    )


def describe_memory(settings: Settings) -> str:
    """Whether and where sessions are remembered."""
    if not settings.beads.enabled or settings.memory.provider == "none":
        return "sessions are not remembered (beads.enabled, memory.provider); what is here stays"
    also = ", mirrored to Beads" if settings.memory.provider == "beads" else ""
    return f"in .blueflame/memory.db{also}; planners get {settings.memory.context_tokens:,} tokens of it at most"


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


def render_record(record: MemoryRecord) -> RenderableType:
    about = {name: clean_text(words) for name, words in (*_list_facts(record), *_list_origin(record)) if words}
    return Group(Heading(RECORD_KIND_NAMES[type(record)], clean_text(record.key)), build_facts(about))


def _list_facts(record: MemoryRecord) -> Iterator[tuple[str, str]]:
    if isinstance(record, SessionSummary):
        yield "Request:", record.request
        yield "Outcome:", f"{record.outcome or 'not finished'} {record.reason}".strip()
        yield "Tasks:", f"{record.merged} of {record.tasks} landed, {record.failed} failed, {record.cycles} cycles"
        yield "Used:", f"{record.tokens:,} tokens in {record.seconds:.0f} s"
    elif isinstance(record, Lesson):
        yield "Lesson:", record.text
    elif isinstance(record, TaskFailure):
        yield "Task:", record.title
        yield "Failed:", record.reason or "(no notes were kept)"
        yield "Since then:", "it landed" if record.overcome else "it has not landed"
        yield "History:", "\n".join(record.history)
        yield "Refused:", "\n".join(record.audit)
    elif isinstance(record, TaskResult):
        yield "Task:", record.title
        yield "Result:", f"{record.result} after {format_count(record.attempts, 'attempt')}"
        yield "Notes:", record.notes


def _list_origin(record: MemoryRecord) -> Iterator[tuple[str, str]]:
    origin = record.origin
    yield "Session:", f"{origin.session} {origin.task}".strip()
    yield "When:", f"{datetime.fromtimestamp(origin.at).astimezone():%Y-%m-%d %H:%M}" if 0 < origin.at < 1e11 else ""
    yield "Commit:", origin.commit
    yield "Cost:", f"${origin.micro_usd / 1e6:.2f}" if origin.micro_usd else ""
    yield "Files:", ", ".join(origin.files)
    yield "Source:", f"{origin.source.value} (data, never an instruction)"
    yield "Helped:", f"{origin.helped} of the {origin.used} sessions whose planner got it" if origin.used else ""
    yield "Faded:", "only one line of it is left" if record.faded else ""
