"""Read values of declared types from parsed JSON: what does not fit completely is refused, with its place.

Not pydantic: to import it and to build its validators takes a command longer than to read the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

Reader = Callable[[Any], Any]

PLAIN_TYPES: Mapping[type, str] = {str: "text", int: "an integer", bool: "true or false", NoneType: "null"}


class DoesNotFit(ValueError):
    """A value is not of the declared type."""

    def __init__(self, why: str, *place: str) -> None:
        super().__init__(f"{'.'.join(place) or 'the event'} {why}")
        self.why, self.place = why, place


@cache
def build_reader(kind: Any) -> Reader:  # noqa: ANN401 (a type hint can be anything)
    """Build the function that reads a value of this type."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if kind is float:
        return _read_number
    if kind in PLAIN_TYPES:
        return _build_plain_reader(kind)
    if isinstance(kind, UnionType) and inner[1:] == (NoneType,):
        return _build_optional_reader(build_reader(inner[0]))
    if origin is tuple and inner[1:] == (...,):
        return _build_list_reader(build_reader(inner[0]))
    if origin is tuple:
        return _build_tuple_reader(*map(build_reader, inner))
    if origin is Mapping:
        return _build_mapping_reader(build_reader(inner[1]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _build_enum_reader(kind)
    assert isinstance(kind, type) and is_dataclass(kind), f"no value of type {kind} can be read from JSON"
    return _build_dataclass_reader(kind)


def _read_number(value: object) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise DoesNotFit("is not a number")


def _build_plain_reader(kind: type) -> Reader:
    def read_plain(value: object) -> object:
        if type(value) is kind:  # exactly: True is no integer
            return value
        raise DoesNotFit(f"is not {PLAIN_TYPES[kind]}")

    return read_plain


def _build_optional_reader(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _build_enum_reader(kind: type[Enum]) -> Reader:
    def read_enum(value: object) -> Enum:
        try:
            return kind(value)
        except ValueError:
            raise DoesNotFit(f"must be one of {', '.join(str(each.value) for each in kind)}") from None

    return read_enum


def _build_list_reader(read: Reader) -> Reader:
    def read_list(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise DoesNotFit("is not a list")
        return tuple([_read_inside(read, n, each) for n, each in enumerate(value)])

    return read_list


def _build_tuple_reader(*readers: Reader) -> Reader:
    def read_tuple(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(readers):
            raise DoesNotFit(f"is not a list of {len(readers)}")
        return tuple([_read_inside(readers[n], n, each) for n, each in enumerate(value)])

    return read_tuple


def _build_mapping_reader(read: Reader) -> Reader:
    def read_mapping(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DoesNotFit("is not an object")
        return {name: _read_inside(read, name, each) for name, each in value.items()}

    return read_mapping


def _build_dataclass_reader(kind: type) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: build_reader(hints[field.name]) for field in fields(kind)}
    needed = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}

    def read_dataclass(value: object) -> object:
        if not isinstance(value, dict):
            raise DoesNotFit("is not an object")
        for name in value:
            if name not in readers:
                raise DoesNotFit("is an unknown field", name)
        for name in needed:
            if name not in value:
                raise DoesNotFit("is missing", name)
        return kind(**{name: _read_inside(readers[name], name, each) for name, each in value.items()})

    return read_dataclass


def _read_inside(read: Reader, place: str | int, value: object) -> Any:  # noqa: ANN401 (of the declared type)
    try:
        return read(value)
    except DoesNotFit as error:
        raise DoesNotFit(error.why, str(place), *error.place) from None
