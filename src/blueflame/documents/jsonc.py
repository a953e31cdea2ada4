"""Change one member of a JSON file that a person keeps: comments, order and layout of all the rest stay.

Comments and trailing commas are allowed, as the programs allow them whose settings these are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from blueflame.model.errors import UsageError

PART = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
TRAILING_COMMA = re.compile(r',(?=\s*[}\]])|"(?:[^"\\\n]|\\.)*"')
DECODER = json.JSONDecoder()


class Member(NamedTuple):
    name: str
    start: int
    value: int  # where its value begins
    end: int


def read_jsonc(text: str) -> dict[str, Any]:
    """Read an object; UsageError for anything else."""
    try:
        found = json.loads(_blank(text)) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError("it is no JSON object")
    return found


def put_member(text: str, place: Sequence[str], value: object) -> str:
    """Set the member at this place, in objects that are made where they are missing."""
    wanted = _set(read_jsonc(text), place, value)
    return _check(_put(text if text.strip() else "{}\n", place, value), wanted)


def drop_member(text: str, place: Sequence[str]) -> str:
    """Remove the member at this place; without one the text is returned as it is."""
    known = read_jsonc(text)
    holder = _find_object(text, place[:-1])
    if holder is None or not (gone := [each for each in _list_members(text, holder) if each.name == place[-1]]):
        return text
    return _check(_cut(text, holder, gone[-1]), _drop(known, place))


def _put(text: str, place: Sequence[str], value: object) -> str:
    for depth in range(len(place) - 1, -1, -1):
        holder = _find_object(text, place[:depth])
        if holder is not None:
            break
    inner = value
    for name in reversed(place[depth + 1 :]):
        inner = {name: inner}
    return _put_in(text, holder or 0, place[depth], inner)


def _put_in(text: str, holder: int, name: str, value: object) -> str:
    members = _list_members(text, holder)
    same = [each for each in members if each.name == name]
    if same:
        indent = _find_indent(text, same[-1].start)
        return text[: same[-1].value] + _format(value, indent) + text[same[-1].end :]
    if not members:
        close = _blank(text).index("}", holder)
        outer = _find_indent(text, holder)
        within = f"\n{outer}  {_format_member(name, value, outer + '  ')}\n{outer}"
        return text[: holder + 1] + text[holder + 1 : close].rstrip(" \t\n") + within + text[close:]
    last = members[-1]
    line_end = text.find("\n", last.end)
    rest = _blank(text, keep_commas=True)[last.end : line_end].strip() if line_end >= 0 else "}"
    indent = _find_indent(text, last.start)
    member = _format_member(name, value, indent)
    if rest not in ("", ","):  # the object goes on in this line
        return f"{text[: last.end]}, {member}{text[last.end :]}"
    comma, after = ("", ",") if rest else (",", "")
    return f"{text[: last.end]}{comma}{text[last.end : line_end]}\n{indent}{member}{after}{text[line_end:]}"


def _cut(text: str, holder: int, gone: Member) -> str:
    """Cut a member with its comma and its line; a last one takes the comma before it along."""
    members, plain = _list_members(text, holder), _blank(text, keep_commas=True)
    at, end = members.index(gone), gone.end
    comma = re.compile(r"\s*,").match(plain, end)
    if comma is not None:
        end = comma.end()
    begin = gone.start
    while begin > 0 and text[begin - 1] in " \t":
        begin -= 1
    if begin > 0 and text[begin - 1] == "\n":
        begin -= 1
    head = text[:begin]
    if comma is None and at > 0:
        place = plain.index(",", members[at - 1].end)
        head = text[:place] + text[place + 1 : begin]
    return head + text[end:]


def _find_object(text: str, place: Sequence[str]) -> int | None:
    """Where the object at this place begins; None if it is missing."""
    plain = _blank(text)
    at = plain.index("{")
    for name in place:
        found = [each for each in _list_members(text, at) if each.name == name]
        if not found:
            return None
        at = found[-1].value
        if plain[at] != "{":
            raise UsageError(f"{name!r} is no object")
    return at


def _list_members(text: str, holder: int) -> list[Member]:
    plain = _blank(text)
    members, at = [], _skip_space(plain, holder + 1)
    while plain[at] != "}":
        name, after = DECODER.raw_decode(plain, at)
        value = _skip_space(plain, _skip_space(plain, after) + 1)
        _, end = DECODER.raw_decode(plain, value)
        members.append(Member(name, at, value, end))
        at = _skip_space(plain, end)
        if plain[at] == ",":
            at = _skip_space(plain, at + 1)
    return members


def _skip_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _blank(text: str, *, keep_commas: bool = False) -> str:
    """Put spaces in the place of comments and trailing commas: every other character keeps its position."""
    plain = PART.sub(lambda part: part[0] if part[0].startswith('"') else re.sub(r"[^\n]", " ", part[0]), text)
    if keep_commas:
        return plain
    return TRAILING_COMMA.sub(lambda part: part[0] if part[0].startswith('"') else " ", plain)


def _find_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _format_member(name: str, value: object, indent: str) -> str:
    return f"{json.dumps(name)}: {_format(value, indent)}"


def _format(value: object, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")


def _set(known: Mapping[str, Any], place: Sequence[str], value: object) -> dict[str, Any]:
    name, *rest = place
    inner = known.get(name, {})
    if rest and not isinstance(inner, dict):
        raise UsageError(f"{name!r} is no object")
    return {**known, name: _set(inner, rest, value) if rest else value}


def _drop(known: Mapping[str, Any], place: Sequence[str]) -> dict[str, Any]:
    name, *rest = place
    if rest:
        return {**known, name: _drop(known[name], rest)}
    return {each: value for each, value in known.items() if each != name}


def _check(text: str, wanted: Mapping[str, Any]) -> str:
    """Whatever its layout is: only what was asked for may have changed."""
    if read_jsonc(text) != wanted:
        raise UsageError("its layout is too unusual to be changed safely: change it by hand")
    return text
