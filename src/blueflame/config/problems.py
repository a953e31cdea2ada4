"""Explains validation errors of the settings: what is wrong, and what would be right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from blueflame.config.keys import find_key_elsewhere, list_siblings
from blueflame.documents.yaml import KeyPath
from blueflame.model.settings import Settings
from blueflame.model.settings.fields import InvalidValue, InvalidValues
from blueflame.model.suggestions import find_closest

MAX_ROUNDS = 8
MINIMAL_SETTINGS = {"project": {"name": "a name"}}  # the only key without a default
_Model = TypeVar("_Model", bound=BaseModel)


def validate_settings(data: dict[str, Any]) -> tuple[Settings | None, list[tuple[KeyPath, str]]]:
    return validate_model(data, Settings, MINIMAL_SETTINGS)


def validate_model(
    data: dict[str, Any], model: type[_Model], minimal: Mapping[str, Any]
) -> tuple[_Model | None, list[tuple[KeyPath, str]]]:
    """The settings, or every fault: one must not hide another. `minimal`: the keys without a default.

    A wrong value is replaced by its default, and the rest is validated again.
    """
    found: dict[KeyPath, str] = {}
    for _ in range(MAX_ROUNDS):
        try:
            settings = model.model_validate(data)
        except ValidationError as error:
            for path, text in list_faults(error, model):
                again = _is_covered(path, found)  # its absence is a fault too: remove its section
                data = {**minimal, **_remove_path(data, path[:-1] if again else path)}
                if not again:
                    found[path] = text
        else:
            return (None if found else settings), list(found.items())
    return None, list(found.items())


def list_faults(error: ValidationError, model: type[BaseModel] = Settings) -> Iterator[tuple[KeyPath, str]]:
    for details in error.errors(include_url=False):
        yield from _explain_error(details, model)


def _is_covered(path: KeyPath, found: dict[KeyPath, str]) -> bool:
    return any(path[: len(known)] == known or known[: len(path)] == path for known in found)


def _remove_path(data: Any, path: KeyPath) -> Any:  # noqa: ANN401 (YAML has any type)
    """A copy without the value; for a list's entry without the list: its other entries were validated too."""
    if not path or not isinstance(data, dict):
        return data
    if len(path) == 1 or isinstance(path[1], int):
        return {key: value for key, value in data.items() if key != path[0]}
    return data | {path[0]: _remove_path(data.get(path[0]), path[1:])}


def format_path(path: KeyPath) -> str:
    """permissions.allowed_paths[2]"""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def format_value(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool | int | float) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _explain_error(details: ErrorDetails, model: type[BaseModel]) -> Iterator[tuple[KeyPath, str]]:
    path, cause = tuple(details["loc"]), details.get("ctx", {}).get("error")
    if path and path[-1] == "[key]":
        path = path[:-1]
    if isinstance(cause, InvalidValues):
        for each in cause.wrongs:
            yield (*path, *each.at), _format_fault(each.wrong, each.got, each.right)
    elif isinstance(cause, InvalidValue):
        got = details["input"] if cause.got is ... else cause.got
        yield (*path, *cause.at), _format_fault(cause.wrong, got, cause.right)
    elif details["type"] == "extra_forbidden":
        yield path, f"unknown key; {_suggest_key(path, model)}"
    elif details["type"] == "missing":
        yield path, f"is missing; add `{path[-1]}:` {_describe_place(path)}"
    else:
        wrong, right = _find_wording(details)
        yield path, _format_fault(wrong, details["input"], right)


def _format_fault(wrong: str, got: object, right: str) -> str:
    if got is ...:
        return f"{wrong}; {right}"
    shown = got if isinstance(got, str) and got.startswith("$") else format_value(got)
    return f"{wrong} (got {shown}); {right}"


def _describe_place(path: KeyPath) -> str:
    return f"under {format_path(path[:-1])}" if path[:-1] else "at the top level"


def _suggest_key(path: KeyPath, model: type[BaseModel]) -> str:
    """A similar key, a synonym, the same key elsewhere, or all keys of the section."""
    name, beside = str(path[-1]), list_siblings(path, model)
    near = find_closest(name, beside)
    if (
        near is None
        and model is Settings
        and name in SYNONYMS
        and SYNONYMS[name].split(".")[-1] in (*beside, SYNONYMS[name].split(".")[-1])
    ):
        near = SYNONYMS[name]
    if near is not None:
        return f"did you mean {near}?"
    elsewhere = next((f"did you mean {other}? " for other in find_key_elsewhere(name, model)), "")
    return f"{elsewhere}{'The' if elsewhere else 'the'} keys {_describe_place(path)} are {', '.join(beside)}"


SYNONYMS = {
    "pipeline": "stages",
    "version": "schema_version",
    "branch": "base_branch",
    "workers": "concurrency.development",
    "agents": "roles",
    "budget": "roles.<role>.budget_usd",
    "diagnostics": "validation.validator_diagnostics",
    "timeout": "limits.agent_timeout",
}


def _describe_choice(context: dict[str, Any]) -> tuple[str, str]:
    return "is not one of the choices", f"write {context['expected']}".replace("'", "")


WORDINGS: dict[str, Callable[[dict[str, Any]], tuple[str, str]]] = {
    "bool_type": lambda _: ("must be true or false", "write true or false, without quotes"),
    "int_type": lambda _: ("must be a whole number", "write digits only, without quotes"),
    "int_parsing": lambda _: ("must be a whole number", "write digits only"),
    "int_from_float": lambda _: ("must be a whole number", "write digits only, without a fraction"),
    "float_type": lambda _: ("must be a number", "write a number such as 1.50, without quotes"),
    "finite_number": lambda _: ("must be a finite number", "write an ordinary number; 0 means unlimited for a budget"),
    "string_type": lambda _: ("must be text", "write some text, in quotes if it looks like a number"),
    "tuple_type": lambda _: ("must be a list", "write one entry per line, each after a dash, or [] for none"),
    "dict_type": lambda _: ("must be a mapping of keys", "write keys and values, indented below it"),
    "mapping_type": lambda _: ("must be a mapping of keys", "write keys and values, indented below it"),
    "model_type": lambda _: ("must be a mapping of keys", "write keys and values, indented below it"),
    "literal_error": _describe_choice,
    "too_short": lambda _: ("is an empty list", "write at least one entry"),
    "greater_than": lambda c: ("is too small", f"write more than {c['gt']:g}"),
    "greater_than_equal": lambda c: ("is too small", f"write at least {c['ge']:g}"),
    "less_than": lambda c: ("is too large", f"write less than {c['lt']:g}"),
    "less_than_equal": lambda c: ("is too large", f"write at most {c['le']:g}"),
}


def _find_wording(details: ErrorDetails) -> tuple[str, str]:
    wording = WORDINGS.get(details["type"])
    return wording(details.get("ctx", {})) if wording else (details["msg"], "see `blueflame config schema`")
