"""Structured output from agents whose program enforces no schema: requested in the prompt, found in the last text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from blueflame.system.files import parse_json_object

FENCED_BLOCK = re.compile(r"^```(?:json)?[ \t]*\n(.*?)\n```[ \t]*$", re.DOTALL | re.MULTILINE)
MAX_MESSAGE_CHARS = 4 * 1024 * 1024

SCHEMA_PROMPT = """\
{prompt}

Your last message must be one JSON object and nothing else: no words before it, none after it.
It must fit this JSON schema:

```json
{schema}
```
"""


def add_schema_to_prompt(prompt: str, schema: Mapping[str, Any] | None) -> str:
    """Add the schema of the expected output, if there is one."""
    if schema is None:
        return prompt
    return SCHEMA_PROMPT.format(prompt=prompt.rstrip(), schema=json.dumps(schema, indent=1))


def parse_object(text: str) -> Mapping[str, Any] | None:
    """Parse the JSON object that is the whole message or its only code block; None for anything else."""
    bare = text.strip()
    if len(bare) > MAX_MESSAGE_CHARS:
        return None
    blocks = FENCED_BLOCK.findall(bare)
    for candidate in (bare, *(blocks if len(blocks) == 1 else ())):
        if (found := parse_json_object(candidate)) is not None:
            return drop_nulls(found)
    return None


def drop_nulls(found: dict[str, Any]) -> dict[str, Any]:
    """Remove null values: in a strict schema they mean keys that were left out."""
    return {name: _drop_inner_nulls(value) for name, value in found.items() if value is not None}


def _drop_inner_nulls(value: Any) -> Any:  # noqa: ANN401 (plain data of any shape, the same shape back)
    if isinstance(value, dict):
        return drop_nulls(value)
    return [_drop_inner_nulls(each) for each in value] if isinstance(value, list) else value


def build_strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make optional keys required and nullable, for providers that allow no optional keys."""
    given = {name: _tighten_value(name, value) for name, value in schema.items()}
    if not isinstance(schema.get("properties"), Mapping):
        return given
    needed = schema.get("required", ())
    properties = {name: inner if name in needed else _allow_null(inner) for name, inner in given["properties"].items()}
    return {**given, "properties": properties, "required": list(properties), "additionalProperties": False}


def _tighten_value(name: str, value: Any) -> Any:  # noqa: ANN401
    if name == "properties" and isinstance(value, Mapping):
        return {each: build_strict_schema(inner) for each, inner in value.items()}
    return build_strict_schema(value) if name == "items" and isinstance(value, Mapping) else value


def _allow_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [*kinds, *(["null"] if "null" not in kinds else [])], **choices}
