"""Expand plain braces; others may become any number of words."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TypeAlias

from blueflame.policy.shell.marks import LOOSE, MARKS

Atom: TypeAlias = tuple[str, bool]
"""One character, and whether it is unquoted, so that it may mean something to the shell."""

MAX_WORDS = 256
_SEQUENCE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,9}))?\Z")


def expand_braces(atoms: list[Atom]) -> list[list[Atom]]:
    """Expand {a,b} and {1..3}."""
    if ("{", True) not in atoms or ("}", True) not in atoms:
        return [atoms]
    found = _expand_list(atoms)
    return found if len(found) <= MAX_WORDS else [[(LOOSE, True)]]


def _expand_list(atoms: list[Atom]) -> list[list[Atom]]:
    for start, atom in enumerate(atoms):
        if atom != ("{", True):
            continue
        end, cuts = _find_brace_end(atoms, start)
        if not end:
            if _has_dots(atoms[start:]) or (",", True) in atoms[start:]:
                return [[(LOOSE, True)]]  # unbalanced: bash has its own rules for these
            return [atoms]
        inside = _list_choices(atoms, start, end, cuts)
        if inside is None:
            if (",", True) in atoms:
                return [[(LOOSE, True)]]  # a pair that holds no list: bash looks for the end of one further on
            continue
        rest = _expand_list(atoms[end + 1 :])
        if len(inside) * len(rest) > MAX_WORDS:
            return [[(LOOSE, True)]]
        return [[*atoms[:start], *choice, *tail] for choice in inside for tail in rest]
    return [atoms]


def _find_brace_end(atoms: list[Atom], start: int) -> tuple[int, list[int]]:
    depth, cuts = 0, [start]
    for at in range(start, len(atoms)):
        if atoms[at] == ("{", True):
            depth += 1
        elif atoms[at] == (",", True) and depth == 1:
            cuts.append(at)
        elif atoms[at] == ("}", True):
            depth -= 1
            if depth == 0:
                return at, [*cuts, at]
    return 0, cuts


def _list_choices(atoms: list[Atom], start: int, end: int, cuts: list[int]) -> list[list[Atom]] | None:
    if len(cuts) > 2:
        pieces = [atoms[a + 1 : b] for a, b in pairwise(cuts)]
        return [choice for piece in pieces for choice in _expand_list(piece)][: MAX_WORDS + 1]
    inside = atoms[start + 1 : end]
    if any(not active for _, active in inside):
        return [[(LOOSE, True)]] if _has_dots(inside) else None
    written = "".join(each for each, _ in inside)
    if m := _SEQUENCE.match(written):
        return _expand_sequence(m[1], m[2], m[3])
    return [[(LOOSE, True)]] if ".." in written or "{" in written else None


def _has_dots(atoms: list[Atom]) -> bool:
    return ".." in "".join(each for each, _ in atoms) or not MARKS.isdisjoint(each for each, _ in atoms)


def _expand_sequence(first: str, last: str, step: str | None) -> list[list[Atom]] | None:
    if first.isalpha() != last.isalpha():
        return None
    letters = first.isalpha()
    if letters and first.islower() != last.islower():
        return [[(LOOSE, True)]]  # the signs between Z and a are special to the shell
    low, high = (ord(first), ord(last)) if letters else (int(first), int(last))
    stride = abs(int(step or 1)) or 1
    if abs(high - low) // stride >= MAX_WORDS:
        return [[(LOOSE, True)]]
    numbers = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    padded = any(re.match(r"-*0.", each) for each in (first, last))
    width = max(len(first), len(last)) if padded else 0
    written = [chr(each) if letters else f"{each:0{width}d}" for each in numbers]
    return [[(char, False) for char in each] for each in written]
