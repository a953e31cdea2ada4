"""Read shfmt's syntax tree without trusting it: anything unexpected is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from blueflame.policy.shell.marks import split_names

SyntaxNode: TypeAlias = Mapping[str, Any]


class UnreadableSyntax(Exception):
    """A syntax tree that is not fully understood, so what the shell would do is unknown."""


POSITION_FIELDS = split_names(
    "Pos End Position Semicolon OpPos ValuePos ValueEnd Left Right Lparen Rparen Lbrace Rbrace ThenPos FiPos"
    " WhilePos DoPos"
    " DonePos ForPos InPos Case In Esac Time Coproc Let TempFile Comments Last CondLast ThenLast DoLast Rsrv RsrvWord"
)
"""Fields with positions and comments, which have no effect."""


def require_node(value: object, *known: str) -> SyntaxNode:
    """Return `value` as a node with only known fields: an unknown field may change the meaning."""
    if not isinstance(value, Mapping):
        raise UnreadableSyntax("a part of the syntax tree is missing")
    for key in value:
        if key not in known and key not in POSITION_FIELDS and key != "Type" and value[key]:
            raise UnreadableSyntax(f"unknown syntax ({str(key)[:40]})")
    return value


def require_nodes(value: object) -> list[SyntaxNode]:
    """Return a list of nodes; shfmt omits empty lists."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise UnreadableSyntax("a list in the syntax tree is not a list of nodes")
    return value


def read_kind(value: object) -> str:
    """Return the type of a node where several are possible."""
    if isinstance(value, Mapping) and isinstance(found := value.get("Type"), str):
        return found
    raise UnreadableSyntax("a node of the syntax tree has no type")


def read_text(value: SyntaxNode, field: str) -> str:
    found = value.get(field, "")
    if not isinstance(found, str):
        raise UnreadableSyntax(f"{field} in the syntax tree is not text")
    return found


def read_flag(value: SyntaxNode, field: str) -> bool:
    found = value.get(field, False)
    if not isinstance(found, bool):
        raise UnreadableSyntax(f"{field} in the syntax tree is neither true nor false")
    return found


def read_literal(value: object) -> str:
    """Return the text of a Lit where only a name or a number can be."""
    return read_text(require_node(value, "Value"), "Value")


def list_parts(word: object) -> list[SyntaxNode]:
    return require_nodes(require_node(word, "Parts").get("Parts"))


def find_line(value: SyntaxNode, field: str) -> int:
    """Return the line on which a node starts (Pos) or ends (End)."""
    return _read_position(value, field, "Line")


def find_offset(value: SyntaxNode, field: str) -> int:
    """Return the byte offset of the start (Pos) or the end (End) of a node."""
    return _read_position(value, field, "Offset")


def _read_position(value: SyntaxNode, field: str, which: str) -> int:
    place = value.get(field)
    found = place.get(which, 0) if isinstance(place, Mapping) else None
    if not isinstance(found, int):
        raise UnreadableSyntax("a node of the syntax tree has no position")
    return found
