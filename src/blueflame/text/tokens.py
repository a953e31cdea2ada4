"""Estimate the number of tokens of a text."""

from __future__ import annotations

BYTES_PER_TOKEN = 3


def estimate_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN) + 1
