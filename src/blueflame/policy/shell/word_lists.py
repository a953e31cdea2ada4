"""Sets of words, written as one text: long lists stay readable so."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())
