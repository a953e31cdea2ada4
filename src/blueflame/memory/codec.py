"""Records as JSON and back. What cannot be read is an error that names the record, never a guess."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter, ValidationError

from blueflame.model.errors import MemoryFailed
from blueflame.model.memory import RECORD_KIND_NAMES, RECORD_TYPES, SCHEMA_VERSION, MemoryRecord
from blueflame.text.event_lines import one_line

LONGEST, MOST = 2_000, 200  # characters of a text, entries of a list


def as_plain(record: MemoryRecord) -> dict[str, Any]:
    """With its type and the version of its form."""
    return {"schema_version": SCHEMA_VERSION, "type": RECORD_KIND_NAMES[type(record)], **asdict(record)}


def encode(record: MemoryRecord) -> str:
    return json.dumps(as_plain(record), separators=(",", ":"), sort_keys=True)


def digest(record: MemoryRecord) -> str:
    return sha256(encode(record).encode()).hexdigest()[:16]


def decode(text: str, where: str, *, foreign: bool = False) -> MemoryRecord:
    """`foreign`: from outside of our own store, where anybody may have written it."""
    try:
        said = _harmless(json.loads(text)) if foreign else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MemoryFailed(f"{where} is no JSON ({error}); forget it with 'blueflame memory forget KEY'") from error
    return from_plain(said, where)


def from_plain(said: object, where: str) -> MemoryRecord:
    """Fields that are missing take their defaults; fields of a newer version are left out."""
    kind = said.get("type") if isinstance(said, Mapping) else None
    version = said.get("schema_version") if isinstance(said, Mapping) else None
    if (
        not isinstance(said, Mapping)
        or kind not in RECORD_TYPES
        or not isinstance(kind, str)
        or version != SCHEMA_VERSION
    ):
        raise MemoryFailed(
            f"{where} is no record of memory that this version knows (type {kind!r}, schema_version {version!r})"
        )
    given = {name: value for name, value in said.items() if name not in ("type", "schema_version")}
    try:
        return _adapter(kind).validate_python(given, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise MemoryFailed(f"{where} cannot be read as a {kind}: {place}: {first['msg']}") from error


def _harmless(value: object) -> object:
    """Each text on one line, of a length that can be borne, with nothing in it that a terminal or a file obeys."""
    if isinstance(value, str):
        return one_line(value, LONGEST)
    if isinstance(value, list):
        return [_harmless(each) for each in value[:MOST]]
    if isinstance(value, dict):
        return {_harmless(name): _harmless(each) for name, each in value.items()}
    return value


@cache
def _adapter(kind: str) -> TypeAdapter[MemoryRecord]:
    return TypeAdapter(RECORD_TYPES[kind])
