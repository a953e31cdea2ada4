"""Plain data as YAML, quickly: one fixed style, far faster than ruamel's dumper and read back the same by it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"

BARE = re.compile(r"[a-z][a-z_]*(-[a-z0-9]+)*")  # plain words and ids need no quotes
NOT_BARE = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

# not taken raw by YAML's reader: control characters, lone surrogates, what it calls a line break or a byte order mark
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
BLOCK = re.compile(r"\S[^\n]*(\n([^\n]*\S)?)*")


def block(fields: Mapping[str, Value], indent: str = "") -> str:
    """Lines `key: value`, each ended."""
    return "".join(f"{indent}{key}:{_after(value, indent)}\n" for key, value in fields.items())


def _after(value: Value, indent: str) -> str:
    """What stands after a key or a dash, with its leading space or line break."""
    if isinstance(value, Mapping):
        return "\n" + block(value, indent + "  ")[:-1] if value else " {}"
    if isinstance(value, str):
        return " " + (_literal(value, indent) or scalar(value))
    if isinstance(value, Sequence):
        return "".join("\n" + item(entry, indent + "  ")[:-1] for entry in value) or " []"
    return " " + scalar(value)


def item(value: Value, indent: str) -> str:
    """One entry of a list, ended."""
    if isinstance(value, Mapping) and value:
        inner = block(value, indent + "  ")
        return f"{indent}- {inner[len(indent) + 2 :]}"
    return f"{indent}-{_after(value, indent)}\n"


def scalar(value: str | float | bool | None) -> str:
    if isinstance(value, str):
        return value if BARE.fullmatch(value) and value not in NOT_BARE else quoted(value)
    return _NUMBERS.get(text := json.dumps(value), text)


_NUMBERS = {"Infinity": ".inf", "-Infinity": "-.inf", "NaN": ".nan"}


def quoted(text: str) -> str:
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _literal(text: str, indent: str) -> str | None:
    """Several lines of ordinary text as a person would write them; anything delicate stays quoted."""
    body = text.removesuffix("\n")
    if "\n" not in text or UNPRINTABLE.search(text.replace("\n", "")) or not BLOCK.fullmatch(body) or body[-1] == "\n":
        return None
    lines = (f"\n{indent}  {line}" if line else "\n" for line in body.split("\n"))
    return ("|" if body != text else "|-") + "".join(lines)
