"""Plain data as YAML, quickly: one fixed style, far faster than ruamel's dumper and read back the same by it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

YamlValue: TypeAlias = "str | int | float | bool | Sequence[YamlValue] | Mapping[str, YamlValue] | None"

BARE_WORD = re.compile(r"[a-z][a-z_]*(-[a-z0-9]+)*")  # plain words and ids need no quotes
RESERVED_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

# not taken raw by YAML's reader: control characters, lone surrogates, what it calls a line break or a byte order mark
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
LITERAL_TEXT = re.compile(r"\S[^\n]*(\n([^\n]*\S)?)*")


def format_mapping(fields: Mapping[str, YamlValue], indent: str = "") -> str:
    """Lines `key: value`, each ended."""
    return "".join(f"{indent}{key}:{_format_value(value, indent)}\n" for key, value in fields.items())


def _format_value(value: YamlValue, indent: str) -> str:
    """What stands after a key or a dash, with its leading space or line break."""
    if isinstance(value, Mapping):
        return "\n" + format_mapping(value, indent + "  ")[:-1] if value else " {}"
    if isinstance(value, str):
        return " " + (_format_literal(value, indent) or format_scalar(value))
    if isinstance(value, Sequence):
        return "".join("\n" + format_item(entry, indent + "  ")[:-1] for entry in value) or " []"
    return " " + format_scalar(value)


def format_item(value: YamlValue, indent: str) -> str:
    """One entry of a list, ended."""
    if isinstance(value, Mapping) and value:
        inner = format_mapping(value, indent + "  ")
        return f"{indent}- {inner[len(indent) + 2 :]}"
    return f"{indent}-{_format_value(value, indent)}\n"


def format_scalar(value: str | float | bool | None) -> str:
    if isinstance(value, str):
        return value if BARE_WORD.fullmatch(value) and value not in RESERVED_WORDS else quote_text(value)
    return _NUMBERS.get(text := json.dumps(value), text)


_NUMBERS = {"Infinity": ".inf", "-Infinity": "-.inf", "NaN": ".nan"}


def quote_text(text: str) -> str:
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _format_literal(text: str, indent: str) -> str | None:
    """Several lines of ordinary text as a person would write them; anything delicate stays quoted."""
    body = text.removesuffix("\n")
    if (
        "\n" not in text
        or UNPRINTABLE.search(text.replace("\n", ""))
        or not LITERAL_TEXT.fullmatch(body)
        or body[-1] == "\n"
    ):
        return None
    lines = (f"\n{indent}  {line}" if line else "\n" for line in body.split("\n"))
    return ("|" if body != text else "|-") + "".join(lines)
