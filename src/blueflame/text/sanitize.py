"""Plain text for people: control characters made harmless, things counted, times told. Light: no rich here."""

from __future__ import annotations

import re

DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1: escapes, titles, bells, cursor moves
    "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"  # reordering marks hide what a line really says
    "\ud800-\udfff\ufeff]"  # lone surrogates (undecodable file names) cannot be written at all
)


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\x{code & 0xFF:02x}" if code < 0xA0 or 0xDC80 <= code <= 0xDCFF else f"<U+{code:04X}>"


def clean_text(text: str) -> str:
    """Text from agents and files with every control character made visible, so that none reaches the terminal."""
    return DANGEROUS.sub(_escape_character, text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def shorten_line(text: str, width: int) -> str:
    """One line of at most `width` characters; an ellipsis says that there is more."""
    line = clean_line(text)
    return line if len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"
