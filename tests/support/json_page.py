"""The page docs/reference/json.md, and the keys of a command's JSON that have to be on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"


FREE = {"evidence", "event", "config"}  # what is inside depends on the gate, the event, the workflow


def keys_in(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            if key not in FREE:
                yield from keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_in(inner)


def section(title: str) -> set[str]:
    """The words set as code in one section of the page."""
    return set(re.findall(r"`([a-z0-9_]+)`", read_section(title)))


def table_keys(title: str) -> set[str]:
    """The keys in the first column of a section's first table."""
    table = read_section(title).partition("| --- |")[2].partition("\n\n")[0]
    return set(re.findall(r"`([a-z0-9_]+)`", "".join(re.findall(r"^\|(.*?)\|", table, re.M))))


def read_section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert found, title
    return found[1]
