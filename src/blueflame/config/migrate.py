"""Rewrites a configuration of schema 1 as schema 2 with ruamel.yaml, which keeps the order and the comments.

Comments that lose their key are put above `roles`. A result that does not mean the same or lacks a comment is refused,
with the changes to make by hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.tokens import ScalarToken

from blueflame.config.load import parse_config
from blueflame.config.locate import CONFIG_NAME
from blueflame.config.schema_v1 import MOVES, OLD_SECTIONS, find_old_sections
from blueflame.documents.yaml import read_document
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError
from blueflame.model.settings import SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    text: str
    changes: tuple[str, ...]  # empty: the file is up to date


def migrate_config(text: str, *, path: Path | None = None) -> Migration:
    """Return the same configuration in schema 2. Raises ConfigError for a file with problems."""
    path = path or Path(CONFIG_NAME)
    before = parse_config(text, path=path)
    changes = _list_changes(text)
    if not changes:
        return Migration(text=text, changes=())
    ending = "\r\n" if "\r\n" in text else "\n"
    source = text.removeprefix("\ufeff").replace("\r\n", "\n")
    result = rewrite_config(source)
    if not _is_equivalent(before.digest, result, path) or count_comments(source) - count_comments(result):
        raise ConfigError(
            f"{path} cannot be rewritten automatically",
            [f"{change}: move it by hand and set schema_version: {SCHEMA_VERSION}" for change in changes],
        )
    return Migration(text=result.replace("\n", ending), changes=changes)


def rewrite_config(text: str) -> str:
    """Move every old key to its new place, together with the comment beside it."""
    yaml = build_yaml()
    data = yaml.load(text)
    following = dict(_find_following_comments(data))
    if "roles" not in data and find_old_sections(data):
        keys = list(data)
        data.insert(keys.index("models") if "models" in keys else keys.index("limits") + 1, "roles", CommentedMap())
    for old, new in MOVES:
        _move_value(data, old, new)
    for section in OLD_SECTIONS:
        _remove_section(data, section)
    for name in ("roles", "limits"):
        if name in data and not data[name]:
            data.pop(name)
    if "schema_version" in data or data.fa.flow_style():
        data["schema_version"] = SCHEMA_VERSION
    out = StringIO()
    yaml.dump(data, out)
    return _restore_comments(text, _add_version(out.getvalue()), following)


def build_yaml() -> YAML:
    """Build a reader and writer that keeps comments, quotes and long lines."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _move_value(data: CommentedMap, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    holder = _find_value(data, old[:-1])
    if not isinstance(holder, CommentedMap) or old[-1] not in holder:
        return
    target = data
    for key in new[:-1]:
        if target.get(key) is None:
            target[key] = CommentedMap()
        target = target[key]
    keys = list(target)
    target.insert(keys.index(old[-2]) if old[-2] in keys else len(keys), new[-1], holder[old[-1]])
    comment, *_ = _read_comment_lines(holder, old[-1])
    if comment:
        target.yaml_add_eol_comment(comment, new[-1])


def _remove_section(data: CommentedMap, section: tuple[str, ...]) -> None:
    holder = _find_value(data, section[:-1])
    if isinstance(holder, CommentedMap):
        holder.pop(section[-1], None)


def _find_value(data: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 (YAML has any type)
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _read_comment_lines(holder: CommentedMap, key: str) -> list[str]:
    """ruamel keeps with a key the comment beside it (the first line) and all lines up to the next key."""
    token = (holder.ca.items.get(key) or [None] * 3)[2]
    return str(token.value).split("\n") if token is not None else [""]


def _find_following_comments(data: CommentedMap) -> Iterator[tuple[str, list[str]]]:
    """The next top-level key, and its heading, where ruamel keeps that with the last key of an old section."""
    keys = list(data)
    for section in OLD_SECTIONS:
        content, top = _find_value(data, section), section[0]
        ends_top = top == section[-1] or list(_find_value(data, (top,)) or ())[-1:] == [section[-1]]
        if isinstance(content, CommentedMap) and content and ends_top and top != keys[-1]:
            _, *lines = _read_comment_lines(content, list(content)[-1])
            yield keys[keys.index(top) + 1], [line for line in lines[:-1] if not line.startswith((" ", "\t"))]


def _add_version(text: str) -> str:
    """Add a missing schema_version at the top: below a heading, above the first key and its comment."""
    if re.search(r"^[{\"']*schema_version", text, re.MULTILINE):
        return text
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if line and not line.startswith(("#", "%", "---")))
    while at and lines[at - 1].startswith("#"):
        at -= 1
    return "\n".join([*lines[:at], f"schema_version: {SCHEMA_VERSION}", "", *lines[at:]])


def _restore_comments(before: str, after: str, following: dict[str, list[str]]) -> str:
    for key, heading in following.items():
        after = _insert_above(after, key, heading)
    lost = count_comments(before) - count_comments(after)
    return _insert_above(after, "roles", list(lost.elements()))


def _insert_above(text: str, key: str, lines: list[str]) -> str:
    found = re.search(rf"^[\"']?{re.escape(key)}[\"']?:", text, re.MULTILINE)
    at = found.start() if found else 0
    return text[:at] + "".join(f"{line}\n" for line in lines) + text[at:]


def _list_changes(text: str) -> tuple[str, ...]:
    data = read_document(text).data
    version = data.get("schema_version")
    bump = () if version == SCHEMA_VERSION else (f"schema_version: {version or 'missing'} -> {SCHEMA_VERSION}",)
    return (
        bump
        + tuple(f"{'.'.join(old)} -> {'.'.join(new)}" for old, new in MOVES if _is_in(data, old))
        + _list_emptied(data)
    )


def _list_emptied(data: dict[str, object]) -> tuple[str, ...]:
    """List the old sections without content: they are removed too."""
    return tuple(f"{'.'.join(place)}: removed" for place in find_old_sections(data) if not _find_value(data, place))


def _is_in(data: object, path: tuple[str, ...]) -> bool:
    holder = _find_value(data, path[:-1])
    return isinstance(holder, dict) and path[-1] in holder


def _is_equivalent(digest: str, text: str, path: Path) -> bool:
    try:
        after = parse_config(text, path=path)
    except ConfigError:
        return False
    return (
        after.digest == digest and after.version == SCHEMA_VERSION and not find_old_sections(read_document(text).data)
    )


def count_comments(text: str) -> Counter[str]:
    return Counter(comment for _, comment in find_comments(text))


def find_comments(text: str) -> list[tuple[int, str]]:
    """Line (from 0) and text of each comment."""
    covered = _find_scalars(text)
    found, offset = [], 0
    for number, line in enumerate(text.split("\n")):
        for column, character in enumerate(line):
            starts = character == "#" and (column == 0 or line[column - 1] in " \t")
            if starts and not any(begin <= offset + column < end for begin, end in covered):
                found.append((number, line[column:].rstrip()))
                break
        offset += len(line) + 1
    return found


def _find_scalars(text: str) -> list[tuple[int, int]]:
    tokens = YAML(typ="safe", pure=True).scan(text)
    return [(token.start_mark.index, token.end_mark.index) for token in tokens if isinstance(token, ScalarToken)]
