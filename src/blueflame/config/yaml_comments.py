"""The comments of a YAML text, told from a # that is part of a value."""

from __future__ import annotations

from collections import Counter

from ruamel.yaml import YAML
from ruamel.yaml.tokens import ScalarToken


def count_comments(text: str) -> Counter[str]:
    return Counter(comment for _, comment in find_comments(text))


def find_comments(text: str) -> list[tuple[int, str]]:
    """Line (from 0) and text of each comment."""
    covered = _find_scalars(text)
    found, offset = [], 0
    for number, line in enumerate(text.split("\n")):
        for column, character in enumerate(line):
            starts = character == "#" and (column == 0 or line[column - 1] in " \t")
            if starts and not any(begin <= offset + column < end for begin, end in covered):
                found.append((number, line[column:].rstrip()))
                break
        offset += len(line) + 1
    return found


def _find_scalars(text: str) -> list[tuple[int, int]]:
    tokens = YAML(typ="safe", pure=True).scan(text)
    return [(token.start_mark.index, token.end_mark.index) for token in tokens if isinstance(token, ScalarToken)]
