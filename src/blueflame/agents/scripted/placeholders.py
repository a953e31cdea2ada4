"""Blanks in a script: `{task}` is filled in, `{{task}}` gives the word itself, any other brace is left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NAMES = ("task", "attempt", "session", "agent", "role", "branch", "base", "title", "port")
_BLANK = re.compile(rf"\{{(\{{)?({'|'.join(NAMES)})\}}(?(1)\}})")


def fill(value: Any, values: Mapping[str, str]) -> Any:  # noqa: ANN401 (plain data of any shape, the same shape back)
    if isinstance(value, str):
        return _BLANK.sub(lambda found: found[0][1:-1] if found[1] else values[found[2]], value)
    if isinstance(value, Mapping):
        return {name: fill(inner, values) for name, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, values) for inner in value]
    return value


def literally(text: str) -> str:
    """A text that was not written for a script: filling gives it back as it is."""
    return _BLANK.sub(lambda found: f"{{{found[0]}}}", text)
