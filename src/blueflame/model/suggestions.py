"""Suggest the name that was probably meant when an unknown one was written."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def find_closest(word: str, words: Iterable[str]) -> str | None:
    """The nearest of the words, or None. Letter case and the difference of - and _ do not count."""
    by_normal_form = {_normalize(known): known for known in sorted(words, reverse=True)}
    found = get_close_matches(_normalize(word), sorted(by_normal_form), n=1)
    return by_normal_form[found[0]] if found else None


def suggest(word: str, words: Iterable[str], *, before: str = "") -> str:
    """`did you mean X?` after the text `before`; empty when nothing is near."""
    closest = find_closest(word, words)
    return f"{before}did you mean {closest}?" if closest else ""


def _normalize(word: str) -> str:
    return word.casefold().replace("-", "_")
