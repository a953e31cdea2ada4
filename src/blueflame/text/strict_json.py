"""Read JSON values strictly: a value of the wrong type is an error."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def read_strings(value: object, what: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{what} must be a list of strings with at least one of them, not {value!r:.80}")
    return value


def read_object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{what} must be an object, not {value!r:.80}")
    return value


def check_keys(read: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    unknown = sorted(set(read) - set(known))
    if unknown:
        raise ValueError(f"{what}: {unknown[0]} is not one of {', '.join(known)}")


def read_integer(value: object, what: str, *, most: int | None = None, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise ValueError(f"{what} must be a whole number of at least {least}{upper}, not {value!r:.80}")
    return value


def read_string(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {value!r:.80}")
    return value


def read_choice(value: object, known: tuple[str, ...], what: str) -> str:
    if value not in known:
        raise ValueError(f"{what} is {value!r:.80}, not one of {', '.join(known)}")
    return str(value)


def read_absolute_path(value: object, what: str) -> str:
    if not read_string(value, what).startswith("/"):
        raise ValueError(f"{what} must be an absolute path, not {value!r:.80}")
    return str(value)
