"""The reference of the journal as Markdown: every event with its fields, and the values that they are made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, get_args, get_type_hints

from blueflame.model import event as events

HEAD = """\
# The events of the journal

Every fact that a journal can hold, made from the code by `make docs-write`; do not edit by hand.
The journal is the one truth about a session; [architecture.md](../explanation/architecture.md) says how it is used.
`blueflame log --json` prints it.
""".splitlines()

COMMENT = re.compile(r"^ {4}(\w+)\b[^#\n]*?  # (.+)$", re.MULTILINE)


def build_events_reference() -> str:
    kinds = get_args(events.Event)
    values = _find_values(kinds)
    return "\n".join([*HEAD, *_format_section("Events", kinds), *_format_section("Values", values)]) + "\n"


def _find_values(kinds: tuple[type, ...]) -> tuple[type, ...]:
    """Every class of ours that a field can hold, through any number of steps, by name."""
    found: dict[str, type] = {}
    frontier = list(kinds)
    while frontier:
        for hint in get_type_hints(frontier.pop()).values():
            for inner in _list_classes(hint):
                if inner.__name__ not in found:
                    found[inner.__name__] = inner
                    if is_dataclass(inner):
                        frontier.append(inner)
    return tuple(found[name] for name in sorted(found))


def _list_classes(hint: Any) -> Iterator[type]:  # noqa: ANN401 (a type hint can be anything)
    if isinstance(hint, type) and hint.__module__.startswith("blueflame."):
        yield hint
    for inner in get_args(hint):
        yield from _list_classes(inner)


def _format_section(title: str, kinds: tuple[type, ...]) -> Iterator[str]:
    yield from ("", f"## {title}")
    for kind in kinds:
        yield from ("", f"### {kind.__name__}", "", *_format_class(kind))


def _format_class(kind: type) -> Iterator[str]:
    said = inspect.cleandoc(kind.__doc__ or "")
    if said and not said.startswith(f"{kind.__name__}("):  # what dataclasses write themselves says nothing new
        yield from (*said.splitlines(), "")
    comments = dict(COMMENT.findall(inspect.getsource(kind)))
    if issubclass(kind, Enum):
        yield from ("| value | meaning |", "|---|---|")
        yield from (f"| `{member.value}` | {_format_meaning(comments.get(member.name, ''))} |" for member in kind)
    elif is_dataclass(kind):
        yield from ("| field | type | default | meaning |", "|---|---|---|---|")
        yield from (_format_row(field, comments.get(field.name, "")) for field in fields(kind))


def _format_row(field: Field[Any], comment: str) -> str:
    hint, default = _escape_cell(str(field.type)), _format_default(field)
    return f"| `{field.name}` | `{hint}` | {default} | {_format_meaning(comment)} |"


def _format_default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"`{field.default_factory()!r}`"
    if field.default is MISSING:
        return "**needed**"
    plain = field.default.value if isinstance(field.default, Enum) else field.default
    if is_dataclass(plain):
        return f"an empty `{type(plain).__name__}`"
    return '`""`' if plain == "" else f"`{plain}`"


def _format_meaning(comment: str) -> str:
    return "" if comment.startswith("noqa") else _escape_cell(comment)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")
