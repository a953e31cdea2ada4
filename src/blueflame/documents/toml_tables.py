"""Put a table into a TOML file that a person keeps, and take it out again: all the rest stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from blueflame.model.errors import UsageError


def read_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"it is no TOML: {error}") from error


def put_table(text: str, place: tuple[str, str], values: Mapping[str, str | int | Sequence[str]]) -> str:
    """Write the table [outer.name] at the end, in the place of one that is there."""
    known = read_toml(text)
    outer, name = place
    wanted = {**known, outer: {**_get_tables(known, outer), name: dict(values)}}
    if known == wanted:
        return text
    kept = drop_table(text, place)
    lines = (f"[{outer}.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()))
    gap = "" if not kept or kept.endswith("\n\n") else "\n" if kept.endswith("\n") else "\n\n"
    return _check(f"{kept}{gap}{chr(10).join(lines)}\n", wanted)


def drop_table(text: str, place: tuple[str, str]) -> str:
    known = read_toml(text)
    outer, name = place
    tables = _get_tables(known, outer)
    if name not in tables:
        return text
    left = {each: value for each, value in tables.items() if each != name}
    without = () if left else ({each: value for each, value in known.items() if each != outer},)
    return _check(_cut_table(text, f"{outer}.{name}"), {**known, outer: left}, *without)


def _cut_table(text: str, name: str) -> str:
    """Cut the lines from the table's heading, or that of a table within it, to the next other heading.

    Comments before that heading are about what follows, or the person's: they stay.
    """
    own = re.compile(rf"\s*\[\s*{re.escape(name)}(\.[^\]]*)?\s*\]")
    kept: list[str] = []
    cut: list[str] = []
    for line in text.splitlines(keepends=True):
        is_heading = line.lstrip().startswith("[")
        if own.match(line) or (cut and not is_heading):
            cut.append(line)
        else:
            kept += [*_list_last_comments(cut), line]
            cut = []
    left = "".join([*kept, *_list_last_comments(cut)])
    return re.sub(r"\n\n+\Z", "\n", left) if cut else left


def _list_last_comments(lines: Sequence[str]) -> list[str]:
    last = list(takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), reversed(lines)))[::-1]
    return last if any(map(str.strip, last)) else []


def _get_tables(known: Mapping[str, Any], outer: str) -> dict[str, Any]:
    found = known.get(outer, {})
    if not isinstance(found, dict):
        raise UsageError(f"{outer!r} is no table")
    return found


def _check(text: str, *wanted: Mapping[str, Any]) -> str:
    """Whatever its layout is: only what was asked for may have changed."""
    try:
        found: object = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = None
    if found not in wanted:
        raise UsageError("its layout is too unusual to be changed safely: change it by hand")
    return text
