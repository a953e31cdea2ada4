"""Make text from agents and files safe to show: what moves the cursor, hides or reorders text becomes visible."""

from __future__ import annotations

import re

DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1: escapes, titles, bells, cursor moves
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f"  # format characters: they reorder or hide what a line really says
    "\u2028\u2029\ud800-\udfff"  # line separators; lone surrogates (undecodable file names) cannot be written at all
    "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]"  # private use: they look different everywhere
)


HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # of a character; the rest of the lone surrogates stand for bytes


def encode_text(text: str) -> bytes:
    """Encode as UTF-8, names that are not UTF-8 as the bytes that they are.

    JSON can hold half of a character, where what wrote it cut a text: that becomes U+FFFD.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return HALVES.sub("\N{REPLACEMENT CHARACTER}", text).encode("utf-8", "surrogateescape")


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\x{code & 0xFF:02x}" if code < 0xA0 or 0xDC80 <= code <= 0xDCFF else f"<U+{code:04X}>"


def clean_text(text: str) -> str:
    """Make every dangerous character visible; keep line breaks and tabs."""
    return text if text.isprintable() else DANGEROUS.sub(_escape_character, text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    """Clean the text and put it on one line, with single spaces."""
    return clean_text(" ".join(text.split()))


def shorten_line(text: str, width: int) -> str:
    """Return one clean line of at most `width` characters, with an ellipsis if it was cut."""
    line = clean_line(text)
    return line if len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"
