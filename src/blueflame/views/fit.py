"""JSON that fits a small space: long texts and lists are cut, and say so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from blueflame.text.sanitize import clean_text

MAX_CHARS = 8_000  # some 2,000 tokens
UNSAID = ("title", "minLength", "maxLength")
LIMITS = ((2_000, 100), (500, 40), (160, 20), (60, 8), (24, 3))  # of a text and of a list, from generous to tight


def fit_json(value: Mapping[str, object], most: int = MAX_CHARS) -> dict[str, object]:
    """Return the object with as much of its texts and lists as `most` characters hold, cleaned for a terminal."""
    for chars, entries in LIMITS:
        cut = {key: _cut(each, chars, entries) for key, each in value.items()}
        if len(json.dumps(cut, ensure_ascii=False)) <= most:
            return cut
    return {"too_large": f"more than {most:,} characters: ask for a part of it"}


def drop_empty(value: Mapping[str, object]) -> dict[str, object]:
    """Return the object without what says nothing: null, empty texts, lists and objects, at any depth."""
    kept = {key: _drop_empty_parts(each) for key, each in value.items()}
    return {key: each for key, each in kept.items() if each is not None and each not in ("", [], {})}


def shorten_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object without titles and lengths of texts, which our errors name; a member that may
    be null is one that may be left out."""
    members = {name: _shorten_member(each) for name, each in schema.get("properties", {}).items()}
    return {key: members if key == "properties" else value for key, value in schema.items() if key != "title"}


def _shorten_member(member: Mapping[str, Any]) -> dict[str, Any]:
    kinds = [each for each in member.get("anyOf", ()) if each != {"type": "null"}]
    if "default" not in member or member["default"] is not None or len(kinds) != 1:
        return {key: value for key, value in member.items() if key not in UNSAID}
    others = {key: value for key, value in member.items() if key not in ("default", "anyOf")}
    return _shorten_member({**kinds[0], **others})


def _drop_empty_parts(value: object) -> object:
    if isinstance(value, Mapping):
        return drop_empty(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_drop_empty_parts(each) for each in value]
    return value


def _cut(value: object, chars: int, entries: int) -> object:
    if isinstance(value, str):
        text = clean_text(value)
        return text if len(text) <= chars else f"{text[:chars].rstrip()}… ({len(text) - chars:,} more characters)"
    if isinstance(value, Mapping):
        kept = {str(key): _cut(each, chars, entries) for key, each in list(value.items())[:entries]}
        return kept if len(value) <= entries else kept | {"…": f"{len(value) - entries:,} more"}
    if isinstance(value, Sequence):
        kept_entries = [_cut(each, chars, entries) for each in value[:entries]]
        return kept_entries if len(value) <= entries else [*kept_entries, f"… {len(value) - entries:,} more"]
    return value
