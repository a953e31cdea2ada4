"""Encode events as text and decode them; an event that cannot be decoded completely is an error.

The body is written by `json`, not by pydantic: file names and agents' output may contain lone surrogates and limits
may be infinite, and pydantic's JSON loses both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from blueflame.model.errors import JournalError
from blueflame.model.event import Event

EVENTS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
"""Event classes by their names in the journal. Renaming a class needs a migration."""


def encode_event(event: Event) -> tuple[str, str]:
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
    """Missing fields get their defaults, so that old journals can be read; unknown fields are refused."""
    adapter = _build_adapter(kind)
    try:
        return adapter.validate_python(json.loads(body), extra="forbid")
    except ValidationError as error:
        problems = [_format_problem(detail) for detail in error.errors(include_url=False)[:3]]
        raise _build_error(kind, "; ".join(problems)) from error
    except (ValueError, RecursionError) as error:
        raise _build_error(kind, str(error)) from error


@cache
def _build_adapter(kind: str) -> TypeAdapter[Event]:
    try:
        return TypeAdapter(EVENTS[kind])
    except KeyError:
        raise JournalError(
            f"the journal contains an unknown event {kind!r}: "
            "it may have been written by a newer version. Use that version; nothing was changed"
        ) from None


def _build_error(kind: str, why: str) -> JournalError:
    return JournalError(
        f"an event {kind} in the journal cannot be read: {why}; "
        "it may have been written by a newer version, or damaged. Nothing was changed"
    )


def _format_problem(detail: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in detail["loc"]) or "the event"
    if detail["type"] == "unexpected_keyword_argument":
        return f"{place} is an unknown field"
    return f"{place}: {detail['msg']}"
