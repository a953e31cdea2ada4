"""Placeholders in a script: `{task}` is filled in, `{{task}}` gives `{task}`, any other brace stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PLACEHOLDERS = ("task", "attempt", "session", "agent", "role", "branch", "base", "title", "port")
_PLACEHOLDER = re.compile(rf"\{{(\{{)?({'|'.join(PLACEHOLDERS)})\}}(?(1)\}})")


def fill_placeholders(value: Any, values: Mapping[str, str]) -> Any:  # noqa: ANN401 (plain data of any shape, the same shape back)
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: found[0][1:-1] if found[1] else values[found[2]], value)
    if isinstance(value, Mapping):
        return {name: fill_placeholders(inner, values) for name, inner in value.items()}
    if isinstance(value, list):
        return [fill_placeholders(inner, values) for inner in value]
    return value


def escape_placeholders(text: str) -> str:
    """Escape a text so that nothing in it is filled in."""
    return _PLACEHOLDER.sub(lambda found: f"{{{found[0]}}}", text)
