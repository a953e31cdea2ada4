"""Read and write memory as a file of Beads (beads-jsonl/1): a header, then one issue or memory per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from hashlib import sha256
from pathlib import Path
from typing import Any

from blueflame.knowledge.wording import describe_record
from blueflame.memory.beads import CLOSE_REASONS, LABEL, LABELS, build_memory_key, build_metadata, build_title
from blueflame.memory.codec import MAX_RECORD_BYTES, decode_record, encode_record
from blueflame.memory.records import MAX_NOTE_CHARS
from blueflame.model.errors import MemoryFailed, UsageError, WorldError
from blueflame.model.memory import Lesson, MemoryRecord, Origin, Source
from blueflame.system.files import read_text, write_atomically
from blueflame.text.format import format_time
from blueflame.text.notes import clean_note
from blueflame.text.sanitize import shorten_line

SCHEMA = "beads-jsonl/1"


def write_jsonl(path: Path, records: Sequence[MemoryRecord]) -> None:
    lines = [
        {"_schema": SCHEMA},
        *(_dump_memory(each) if isinstance(each, Lesson) else _dump_issue(each) for each in records),
    ]
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines))


def read_jsonl(path: Path) -> tuple[MemoryRecord, ...]:
    """Read all of it or nothing: an invalid line is reported with its number."""
    found: list[MemoryRecord] = []
    try:
        lines = read_text(path, "the memory file").split("\n")
    except WorldError as error:
        raise UsageError(str(error)) from error
    for number, text in enumerate(lines, start=1):
        if text.strip():
            found += _parse_line(text, f"{path}:{number}")
    return tuple({record.key: record for record in found}.values())


def _dump_memory(record: Lesson) -> dict[str, Any]:
    return {
        "_type": "memory",
        "key": build_memory_key(record.key),
        "value": record.text,
        "bf_record": encode_record(record),
    }


def _dump_issue(record: MemoryRecord) -> dict[str, Any]:
    at = format_time(record.origin.at, "%Y-%m-%dT%H:%M:%SZ", "1970-01-01T00:00:00Z", zone=UTC)
    return {
        "_type": "issue",
        "id": f"bf-{sha256(record.key.encode()).hexdigest()[:10]}",
        "title": build_title(record),
        "description": describe_record(record, 0),
        "status": "closed",
        "priority": 2,
        "issue_type": "task",
        "created_at": at,
        "created_by": "blueflame",
        "updated_at": at,
        "closed_at": at,
        "close_reason": CLOSE_REASONS[type(record)],
        "closed_by_session": record.origin.session,
        "labels": [LABEL, *LABELS[type(record)].split(",")],
        "metadata": build_metadata(record),
    }


def _parse_line(text: str, where: str) -> Iterator[MemoryRecord]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}; nothing was imported") from error
    if not isinstance(data, dict):
        raise UsageError(f"{where} is not a JSON object, as every line must be; nothing was imported")
    if "_schema" in data:
        if data["_schema"] != SCHEMA:
            schema = data["_schema"]
            raise UsageError(f"{where}: unknown format {schema!r}; this version reads {SCHEMA}. Nothing was imported")
    elif data.get("_type", "issue") == "issue":
        yield _parse_issue(data, where)
    elif data["_type"] == "memory":
        yield _parse_memory(data, where)
    # lines of other types are for Beads only


def _parse_issue(data: Mapping[str, Any], where: str) -> MemoryRecord:
    metadata = data.get("metadata")
    ours = metadata.get("bf_record") if isinstance(metadata, Mapping) else None
    if isinstance(ours, str):
        return _parse_own_record(ours, where)
    name, title = data.get("id"), data.get("title")
    if not isinstance(name, str) or not isinstance(title, str):
        raise UsageError(f"{where} is an issue without an id or a title; nothing was imported")
    ending = data.get("close_reason") or data.get("description") or ""
    return _build_note(f"import:{name}", f"{title} ({data.get('status', 'open')}): {ending}".removesuffix(": "))


def _parse_memory(data: Mapping[str, Any], where: str) -> MemoryRecord:
    ours, key, value = data.get("bf_record"), data.get("key"), data.get("value")
    if isinstance(ours, str):
        return _parse_own_record(ours, where)
    if not isinstance(key, str) or not isinstance(value, str):
        raise UsageError(f"{where} is a memory without a key or a value; nothing was imported")
    return _build_note(f"import:{key}", value)


def _parse_own_record(text: str, where: str) -> MemoryRecord:
    if len(text) > MAX_RECORD_BYTES:
        raise UsageError(
            f"{where}: a record of {len(text):,} characters, and at most {MAX_RECORD_BYTES:,} are read: take the line "
            "out. Nothing was imported"
        )
    try:
        return decode_record(text, where, foreign=True)
    except MemoryFailed as error:
        raise UsageError(f"{error}. Nothing was imported") from error


def _build_note(key: str, text: str) -> Lesson:
    return Lesson(
        key=shorten_line(key, 200),
        origin=Origin(session="import", source=Source.IMPORT),
        text=clean_note(text, MAX_NOTE_CHARS),
    )
