"""Events as text and back. What cannot be read back whole is an error, never a guess.

The body is written by `json`, not by pydantic: file names and agents' output may hold lone surrogates and limits may be
infinite, and pydantic's own JSON loses both.
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
"""The name under which the journal keeps each event. A class that is renamed needs a migration."""


def encode_event(event: Event) -> tuple[str, str]:
    kind = type(event).__name__
    return kind, format_json(event, kind)


def format_json(value: object, what: str) -> str:
    """ASCII only, so that no text in it can trouble SQLite."""
    try:
        return json.dumps(value, default=_convert_to_plain, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"{what} cannot be put into the journal: {error}; nothing was written") from error


def _convert_to_plain(value: object) -> dict[str, object]:
    if is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in _list_field_names(type(value))}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds {value!r}, which is no plain value")


@cache
def _list_field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def decode_event(kind: str, body: str) -> Event:
    """Fields that are missing take their defaults, so that old journals fold; fields we do not know are refused."""
    adapter = _build_adapter(kind)
    try:
        return adapter.validate_python(json.loads(body), extra="forbid")
    except ValidationError as error:
        raise _build_error(kind, _format_problems(error)) from error
    except (ValueError, RecursionError) as error:
        raise _build_error(kind, str(error)) from error


@cache
def _build_adapter(kind: str) -> TypeAdapter[Event]:
    try:
        return TypeAdapter(EVENTS[kind])
    except KeyError:
        raise JournalError(
            f"the journal holds an event {kind!r} that this Blue Flame does not know; "
            "it may have been written by a newer version: use that version. Nothing was changed"
        ) from None


def _build_error(kind: str, why: str) -> JournalError:
    return JournalError(
        f"an event {kind} in the journal cannot be read: {why}; "
        "it may have been written by a newer version, or damaged. Nothing was changed"
    )


def _format_problems(error: ValidationError) -> str:
    return "; ".join(_format_problem(detail) for detail in error.errors(include_url=False)[:3])


def _format_problem(detail: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in detail["loc"]) or "the event"
    if detail["type"] == "unexpected_keyword_argument":
        return f"{place} is not a field we know"
    return f"{place}: {detail['msg']}"
