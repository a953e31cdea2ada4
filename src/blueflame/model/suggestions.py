"""What somebody probably meant when they wrote a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def find_closest(word: str, words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The nearest of the words, or none when nothing is near. Small and capital letters, - and _ count as the same."""
    plain = {_normalize(known): known for known in sorted(words, reverse=True)}
    found = get_close_matches(_normalize(word), sorted(plain), n=1, cutoff=cutoff)
    return plain[found[0]] if found else None


def suggest(word: str, words: Iterable[str]) -> str:
    """`did you mean X?`, or nothing."""
    near = find_closest(word, words)
    return f"did you mean {near}?" if near else ""


def _normalize(word: str) -> str:
    return word.casefold().replace("-", "_")
