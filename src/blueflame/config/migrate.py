"""Rewrite a file of schema 1 as schema 2, keeping every comment and the order of what stays.

Two ways, and a judge. The first cuts lines out and puts lines in, so that all else stays as it was, byte for byte.
Where a file is written in a way it cannot follow (flow style, anchors, roles that are there already) ruamel.yaml
rewrites the whole. Whichever it was, the result must mean the same and have lost no comment, or it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from blueflame.config.load import parse_config
from blueflame.config.locate import CONFIG_NAME
from blueflame.config.rewrite import CannotCut, cut_and_put, rewrite_config
from blueflame.config.schema_v1 import MOVES, find_old_sections
from blueflame.config.yaml_comments import count_comments
from blueflame.documents.yaml import read_document
from blueflame.model.errors import ConfigError
from blueflame.model.settings import SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    text: str
    changes: tuple[str, ...]  # none: the file is up to date


def migrate_config(text: str, *, path: Path | None = None) -> Migration:
    """The same configuration in schema 2. A file with problems is refused with all of them."""
    path = path or Path(CONFIG_NAME)
    before = parse_config(text, path=path)
    changes = _list_changes(text)
    if not changes:
        return Migration(text=text, changes=())
    ending = "\r\n" if "\r\n" in text else "\n"
    source = text.removeprefix("\ufeff").replace("\r\n", "\n")
    for rewrite in (cut_and_put, rewrite_config):
        try:
            result = rewrite(source)
        except CannotCut:
            continue
        if _is_equivalent(before.digest, result, path) and _has_all_comments(source, result):
            return Migration(text=result.replace("\n", ending), changes=changes)
    raise ConfigError(
        f"{path} cannot be rewritten by itself",
        [f"{change}: move it by hand and set schema_version: {SCHEMA_VERSION}" for change in changes],
    )


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
    """Old sections without content go too."""
    return tuple(f"{'.'.join(place)}: taken out" for place in find_old_sections(data) if not _is_filled(data, place))


def _is_filled(data: object, place: tuple[str, ...]) -> bool:
    for key in place:
        data = data.get(key) if isinstance(data, dict) else None
    return bool(data)


def _is_in(data: object, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def _is_equivalent(digest: str, text: str, path: Path) -> bool:
    try:
        after = parse_config(text, path=path)
    except ConfigError:
        return False
    return (
        after.digest == digest and after.version == SCHEMA_VERSION and not find_old_sections(read_document(text).data)
    )


def _has_all_comments(before: str, after: str) -> bool:
    return not count_comments(before) - count_comments(after)
