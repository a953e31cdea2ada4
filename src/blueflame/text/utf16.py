"""Texts measured as Telegram measures them: in UTF-16 units, of which an emoji has two or more."""

from __future__ import annotations

MORE = "\n…"


def count_units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def cut_to_units(text: str, limit: int) -> str:
    """Return the text, or as many of its characters as fit with a mark that it was cut. No character is cut in two."""
    if count_units(text) <= limit:
        return text
    kept, units = 0, count_units(MORE)
    for character in text:
        units += count_units(character)
        if units > limit:
            break
        kept += 1
    return text[:kept].rstrip() + MORE
