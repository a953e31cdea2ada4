"""Encode records as JSON and decode them; a record that cannot be decoded is an error that names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter, ValidationError

from blueflame.model.errors import MemoryFailed
from blueflame.model.memory import RECORD_KIND_NAMES, RECORD_TYPES, SCHEMA_VERSION, Lesson, MemoryRecord, Source
from blueflame.text.sanitize import shorten_line

FOREIGN = "import:"  # before the name of a session that was not ours
MAX_RECORD_BYTES = 64_000  # of a record from elsewhere
MAX_TEXT_CHARS, MAX_LIST_ENTRIES = 2_000, 200  # characters of a text, entries of a list


def dump_record(record: MemoryRecord) -> dict[str, Any]:
    """As a dict, with its type and schema version."""
    return {"schema_version": SCHEMA_VERSION, "type": RECORD_KIND_NAMES[type(record)], **asdict(record)}


def encode_record(record: MemoryRecord) -> str:
    return json.dumps(dump_record(record), separators=(",", ":"), sort_keys=True)


def compute_digest(record: MemoryRecord) -> str:
    return sha256(encode_record(record).encode()).hexdigest()[:16]


def decode_record(text: str, where: str, *, foreign: bool = False) -> MemoryRecord:
    """`foreign`: not from our own store, so its texts are sanitized, and its claims about its origin do not count."""
    try:
        data = _sanitize_value(json.loads(text)) if foreign else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MemoryFailed(f"{where} is not JSON ({error}); forget it with 'blueflame memory forget KEY'") from error
    record = parse_record(data, where)
    return distrust_record(record) if foreign else record


def distrust_record(record: MemoryRecord) -> MemoryRecord:
    """What comes from elsewhere cannot say that a person wrote or confirmed it, nor that a session of ours did."""
    origin = record.origin
    session = origin.session if origin.session.startswith(FOREIGN) else f"{FOREIGN}{origin.session}"
    record = replace(record, origin=replace(origin, session=session, source=Source.IMPORT, used=0, helped=0))
    if isinstance(record, Lesson):
        return replace(record, confirmed=False, stale=False, archived="", superseded_by="")
    return record


def parse_record(data: object, where: str) -> MemoryRecord:
    """Missing fields get their defaults; fields of a newer version are ignored."""
    fields = data if isinstance(data, Mapping) else {}
    kind, version = fields.get("type"), fields.get("schema_version")
    if not isinstance(kind, str) or kind not in RECORD_TYPES or version != SCHEMA_VERSION:
        raise MemoryFailed(
            f"{where} is not a memory record of this version (type {kind!r}, schema_version {version!r})"
        )
    given = {name: value for name, value in fields.items() if name not in ("type", "schema_version")}
    try:
        return _build_adapter(kind).validate_python(given, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise MemoryFailed(f"{where} cannot be read as a {kind}: {place}: {first['msg']}") from error


def _sanitize_value(value: object) -> object:
    """Each text on one line, of limited length and without control characters."""
    if isinstance(value, str):
        return shorten_line(value, MAX_TEXT_CHARS)
    if isinstance(value, list):
        return [_sanitize_value(each) for each in value[:MAX_LIST_ENTRIES]]
    if isinstance(value, dict):
        return {_sanitize_value(name): _sanitize_value(each) for name, each in value.items()}
    return value


@cache
def _build_adapter(kind: str) -> TypeAdapter[MemoryRecord]:
    return TypeAdapter(RECORD_TYPES[kind])
