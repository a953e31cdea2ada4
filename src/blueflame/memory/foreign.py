"""Screen what is to be kept, and believe nothing that records from files and mirrors claim about their origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from blueflame.knowledge.curate import keep_curation
from blueflame.knowledge.screen import (
    MAX_READ_CHARS,
    Passed,
    Refusal,
    drop_poisoned_subject,
    screen_lesson,
    screen_text,
)
from blueflame.lazy_dataclass import dataclass
from blueflame.memory.shelves import RefusedRecord
from blueflame.model.memory import (
    Lesson,
    MemoryRecord,
    SessionSummary,
    Source,
    TaskFailure,
    TaskResult,
    get_headline,
)

IMPORT_PREFIX = "import:"
LEFT_OUT = "(left out: see the refused entries of blueflame memory list)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    new: int
    refused: tuple[RefusedRecord, ...] = ()
    warning: str = ""


def screen_own(
    records: Iterable[MemoryRecord], known: Iterable[Lesson], at: float
) -> tuple[list[MemoryRecord], list[RefusedRecord]]:
    """Screen what agents wrote in records of our own sessions; a lesson that is known keeps a person's words.

    Of a result or a failure only the poisoned words are left out: that the task failed stays known.
    """
    here = {each.key: each for each in known}
    accepted: list[MemoryRecord] = []
    refused: list[RefusedRecord] = []
    said = ""
    for record in records:
        if isinstance(record, SessionSummary):  # a person's request, and our own words
            accepted.append(record)
            said = record.request
            continue
        if not isinstance(record, Lesson):
            clean, refusals = _drop_poisoned(record, said)
            accepted.append(clean)
            refused += [RefusedRecord(record.key, at, each.rule, each.reason) for each in refusals[:1]]
            continue
        by_person = record.origin.source is Source.PERSON
        passed = drop_poisoned_subject(record) if by_person else screen_lesson(record)
        if isinstance(passed, Refusal):
            refused.append(RefusedRecord(record.key, at, passed.rule, passed.reason))
        else:
            accepted.append(keep_curation(here.get(record.key), passed))
    return accepted, refused


def _drop_poisoned(record: TaskResult | TaskFailure, said: str) -> tuple[MemoryRecord, list[Refusal]]:
    """Return the record without texts that are refused, and why they are. `said`: the words of a person."""
    refusals: list[Refusal] = []

    def keep(text: str) -> bool:
        found = screen_text(text, MAX_READ_CHARS, quotes=True) if text and text not in said else None
        refusals.extend([found] if isinstance(found, Refusal) else [])
        return not isinstance(found, Refusal)

    texts = ("title", "notes") if isinstance(record, TaskResult) else ("title", "reason")
    lists = ("history", "audit") if isinstance(record, TaskFailure) else ()
    changed: dict[str, object] = {name: LEFT_OUT for name in texts if not keep(getattr(record, name))}
    changed |= {name: tuple(filter(keep, getattr(record, name))) for name in lists}
    return (replace(record, **changed) if refusals else record), refusals  # type: ignore[arg-type]  # its own fields


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
