"""Encode events as text and decode them; an event that cannot be decoded completely is an error.

File names and agents' output may contain lone surrogates, and limits may be infinite: `json` keeps both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import cast, get_args

from blueflame.journal.readers import build_reader
from blueflame.model.errors import JournalError
from blueflame.model.event import Event

EVENTS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Event)}
"""Event classes by their names in the journal. Renaming a class needs a migration."""


def encode_event(event: object) -> tuple[str, str]:
    kind = type(event).__name__
    return kind, format_json(event, kind)


def format_json(value: object, what: str) -> str:
    """ASCII only, so that SQLite accepts any text in it."""
    try:
        return json.dumps(value, default=_convert_to_plain, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"{what} cannot be written to the journal: {error}; nothing was written") from error


def _convert_to_plain(value: object) -> dict[str, object]:
    if is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in _list_field_names(type(value))}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it contains {value!r}, which is not a plain value")


@cache
def _list_field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def decode_event(kind: str, body: str) -> Event:
    return cast("Event", decode_value(kind, body, EVENTS))


def decode_value(kind: str, body: str, kinds: Mapping[str, type]) -> object:
    """Missing fields get their defaults, so that old journals can be read; unknown fields are refused."""
    if kind not in kinds:
        raise JournalError(
            f"the journal contains an unknown event {kind!r}: "
            "it may have been written by a newer version. Use that version; nothing was changed"
        )
    try:
        return build_reader(kinds[kind])(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise JournalError(
            f"an event {kind} in the journal cannot be read: {error}; "
            "it may have been written by a newer version, or damaged. Nothing was changed"
        ) from error
