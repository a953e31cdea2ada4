"""How the text of a configuration is moved from schema 1 to schema 2: line by line, or as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from blueflame.config.schema_v1 import MOVES, OLD_SECTIONS, V1_ROLES
from blueflame.config.yaml_comments import count_comments
from blueflame.model.settings import SCHEMA_VERSION

WHERE = dict(MOVES)


class CannotCut(Exception):
    """The text is not laid out one key per line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    new: tuple[str, ...]  # the place it moves to
    above: tuple[str, ...]  # comment lines above it
    text: str  # what follows the colon, comment included


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section of schema 1 in the text, from its key to its last line."""

    first: int
    last: int
    indent: str
    remark: str  # the comment beside the section's key
    entries: tuple[Entry, ...]
    below: tuple[str, ...]  # comment lines after the last entry


class Edit(NamedTuple):
    first: int
    last: int
    new: list[str]


def cut_and_put(text: str) -> str:
    """Only the lines that change are touched."""
    lines, root = text.split("\n"), _root(text)
    models, budgets = (_part(root, place, lines) for place in OLD_SECTIONS)
    if (models or budgets) and _find(root, ("roles",)) is not None:
        raise CannotCut
    edits = [*_edits(models, budgets, root, lines), *_version_edit(root, lines)]
    for edit in sorted(edits, reverse=True):
        lines[edit.first : edit.last + 1] = edit.new
    return "\n".join(lines)


def _edits(models: Part | None, budgets: Part | None, root: MappingNode, lines: list[str]) -> Iterator[Edit]:
    roles = _roles(models, budgets)
    stay = _left_in_limits(budgets) if budgets else []
    if models is not None:
        yield Edit(models.first, models.last, roles)
    if budgets is None:
        return
    if models is not None or not roles:
        yield Edit(budgets.first, budgets.last, stay)
        return
    end = max(_last_line(_found(root, ("limits",))), budgets.last)
    follows = end + 1 < len(lines) and lines[end + 1].strip()
    after = ["", *roles, ""] if follows else ["", *roles]
    if end == budgets.last:
        yield Edit(budgets.first, budgets.last, [*stay, *after])
    else:
        yield Edit(budgets.first, budgets.last, stay)
        yield Edit(end + 1, end, after)


def _roles(models: Part | None, budgets: Part | None) -> list[str]:
    """The new section; each comment stays with what it was said about."""
    parts = [part for part in (models, budgets) if part is not None]
    moved = [entry for part in parts for entry in part.entries if entry.new[0] == "roles"]
    loose = [f"  {line}" for part in parts for line in part.below]
    if budgets is not None and budgets.remark:
        loose.insert(0, f"  {budgets.remark}")
    body = [line for role in V1_ROLES for line in _role(role, moved)]
    remark = f"  {models.remark}" if models is not None and models.remark else ""
    if not body:
        return [line.strip() for line in (remark, *loose) if line]
    return [f"roles:{remark}", *loose, *body]


def _role(role: str, moved: list[Entry]) -> Iterator[str]:
    own = [entry for entry in moved if entry.new[1] == role]
    if own:
        yield f"  {role}:"
    for entry in own:
        yield from (f"    {comment}" for comment in entry.above)
        yield f"    {entry.new[2]}:{entry.text}"


def _left_in_limits(budgets: Part) -> list[str]:
    stay = [entry for entry in budgets.entries if entry.new[0] == "limits"]
    return [f"{budgets.indent}{line}" for entry in stay for line in (*entry.above, f"{entry.new[1]}:{entry.text}")]


def _version_edit(root: MappingNode, lines: list[str]) -> Iterator[Edit]:
    version = _find(root, ("schema_version",))
    if version is None:
        top = _top(lines, root)
        yield Edit(top, top - 1, [f"schema_version: {SCHEMA_VERSION}", ""])
        return
    line, start, end = version.start_mark.line, version.start_mark.column, version.end_mark.column
    yield Edit(line, line, [f"{lines[line][:start]}{SCHEMA_VERSION}{lines[line][end:]}"])


def _top(lines: list[str], root: MappingNode) -> int:
    """Before the first key and the comments that belong to it, but after a heading that stands by itself."""
    top = root.value[0][0].start_mark.line
    while top and lines[top - 1].startswith("#"):
        top -= 1
    return int(top)


def _root(text: str) -> MappingNode:
    root = YAML(typ="safe", pure=True).compose(text)
    if not isinstance(root, MappingNode) or root.flow_style or not root.value:
        raise CannotCut
    return root


def _part(root: MappingNode, place: tuple[str, ...], lines: list[str]) -> Part | None:
    pair = _pair(root, place)
    if pair is None:
        return None
    key, value = pair
    empty = isinstance(value, ScalarNode) and not value.value
    if not empty and (not isinstance(value, MappingNode) or value.flow_style):
        raise CannotCut
    first = key.start_mark.line
    entries, last = [], first
    for inner, content in [] if empty else value.value:
        entries.append(_entry(place, inner, content, lines, last))
        last = content.end_mark.line
    end = _end_of_comments(lines, last, key.start_mark.column)
    below = tuple(line.strip() for line in lines[last + 1 : end + 1])
    remark = lines[first][key.end_mark.column :].lstrip(" :")
    indent = " " * key.start_mark.column
    return Part(first=first, last=end, indent=indent, remark=remark.strip(), entries=tuple(entries), below=below)


def _entry(place: tuple[str, ...], key: Node, value: Node, lines: list[str], last: int) -> Entry:
    line = key.start_mark.line
    plain = isinstance(value, ScalarNode) and value.end_mark.line == line == value.start_mark.line
    if not plain or line <= last or value.start_mark.index < key.start_mark.index:
        raise CannotCut
    above = tuple(each.strip() for each in lines[last + 1 : line] if each.strip())
    text = lines[line][key.end_mark.column :].lstrip().removeprefix(":").rstrip()
    return Entry(new=WHERE[*place, key.value], above=above, text=text)


def _end_of_comments(lines: list[str], last: int, indent: int) -> int:
    """Comment lines right below a section that are set in further than its key belong to it."""
    while last + 1 < len(lines):
        line = lines[last + 1]
        if not line.strip().startswith("#") or len(line) - len(line.lstrip()) <= indent:
            break
        last += 1
    return last


def _last_line(node: Node) -> int:
    if isinstance(node, ScalarNode) or not node.value:
        return int(node.end_mark.line)
    inner = [pair[1] for pair in node.value] if isinstance(node, MappingNode) else node.value
    return max(_last_line(each) for each in inner)


def _pair(root: Node, place: tuple[str, ...]) -> tuple[Node, Node] | None:
    key, value = root, root
    for name in place:
        pairs = value.value if isinstance(value, MappingNode) else []
        found = next((pair for pair in pairs if pair[0].value == name), None)
        if found is None:
            return None
        key, value = found
    return key, value


def _find(root: Node, place: tuple[str, ...]) -> Node | None:
    pair = _pair(root, place)
    return pair[1] if pair else None


def _found(root: Node, place: tuple[str, ...]) -> Node:
    node = _find(root, place)
    assert node is not None
    return node


def rewrite_config(text: str) -> str:
    """The whole text anew. Comments that had no place of their own any more go to the top."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    data = yaml.load(text)
    for old, new in MOVES:
        _move_value(data, old, new)
    for place in OLD_SECTIONS:
        _remove_section(data, place)
    _set_version(data)
    out = StringIO()
    yaml.dump(data, out)
    lost = count_comments(text) - count_comments(out.getvalue())
    return "".join(f"{comment}\n" for comment in lost.elements()) + out.getvalue()


def _move_value(data: Any, old: tuple[str, ...], new: tuple[str, ...]) -> None:  # noqa: ANN401 (YAML has any type)
    holder = data
    for key in old[:-1]:
        holder = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or old[-1] not in holder:
        return
    target = data
    for key in new[:-1]:
        if target.get(key) is None:
            target[key] = {}
        target = target[key]
    target[new[-1]] = holder[old[-1]]


def _remove_section(data: Any, place: tuple[str, ...]) -> None:  # noqa: ANN401 (YAML has any type)
    for key in place[:-1]:
        data = data.get(key) or {}
    data.pop(place[-1], None)


def _set_version(data: Any) -> None:  # noqa: ANN401 (YAML has any type)
    if "schema_version" in data:
        data["schema_version"] = SCHEMA_VERSION
    else:
        data.insert(0, "schema_version", SCHEMA_VERSION)
