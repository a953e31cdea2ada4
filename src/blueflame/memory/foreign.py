"""Screen what is to be kept, and believe nothing that records from files and mirrors claim about their origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from blueflame.knowledge.curate import keep_curation
from blueflame.knowledge.screen import Passed, Refusal, screen_lesson, screen_text
from blueflame.memory.shelves import RefusedRecord
from blueflame.model.memory import Lesson, MemoryRecord, SessionSummary, Source, TaskFailure, get_headline

IMPORT_PREFIX = "import:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    new: int
    refused: tuple[RefusedRecord, ...] = ()
    warning: str = ""


def screen_own(
    records: Iterable[MemoryRecord], known: Iterable[Lesson], at: float
) -> tuple[list[MemoryRecord], list[RefusedRecord]]:
    """Records of our own sessions: only lessons of agents are screened; one that is known keeps a person's words."""
    here = {each.key: each for each in known}
    accepted: list[MemoryRecord] = []
    refused: list[RefusedRecord] = []
    for record in records:
        if not isinstance(record, Lesson):
            accepted.append(record)
            continue
        passed = record if record.origin.source is Source.PERSON else screen_lesson(record)
        if isinstance(passed, Refusal):
            refused.append(RefusedRecord(record.key, at, passed.rule, passed.reason))
        else:
            accepted.append(keep_curation(here.get(record.key), passed))
    return accepted, refused


def screen_foreign(records: Iterable[MemoryRecord], at: float) -> tuple[list[MemoryRecord], list[RefusedRecord]]:
    accepted: list[MemoryRecord] = []
    refused: list[RefusedRecord] = []
    for record in records:
        found = screen_lesson(record) if isinstance(record, Lesson) else screen_text(_join_texts(record), quotes=True)
        if isinstance(found, Refusal):
            refused.append(RefusedRecord(record.key, at, found.rule, found.reason))
        else:
            accepted.append(record if isinstance(found, Passed) else found)
    return accepted, refused


def _join_texts(record: MemoryRecord) -> str:
    parts = [get_headline(record), getattr(record, "reason", ""), getattr(record, "notes", "")]
    if isinstance(record, TaskFailure):
        parts += [*record.history, *record.audit]
    elif isinstance(record, SessionSummary):
        parts.append(record.outcome)
    return "\n".join(filter(None, parts)) or "(no title)"


def name_imported(records: Sequence[MemoryRecord], known: Mapping[str, MemoryRecord]) -> list[MemoryRecord]:
    """Give them keys that no record of ours can have; leave out what is ours already."""
    return [
        record if record.key.startswith(IMPORT_PREFIX) else replace(record, key=f"{IMPORT_PREFIX}{record.key}")
        for record in records
        if not _is_known(record, known.get(record.key))
    ]


def _is_known(record: MemoryRecord, own: MemoryRecord | None) -> bool:
    return own is not None and type(own) is type(record) and get_headline(own) == get_headline(record)
