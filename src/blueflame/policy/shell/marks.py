"""Marks in a word for what is not literal. Control characters in a command are refused, so they are free for this."""

from __future__ import annotations

import re

UNKNOWN = "\x00"  # any text at all, in one piece
ANY = "\x01"  # * in a file name pattern
ONE = "\x02"  # ? or [...] in a file name pattern
NUMBER = "\x03"  # a whole number
START = "\x04"  # where the whole command starts, as an absolute path
ROOT = "\x05"  # the top of the worktree, as an absolute path
HOME = "\x06"  # ~ and $HOME
PIPE = "\x07"  # the /dev/fd/N of a process substitution
LOOSE = "\x08"  # any text, unquoted: it may become any number of words

MARKS = frozenset((UNKNOWN, ANY, ONE, NUMBER, START, ROOT, HOME, PIPE, LOOSE))
_PRINTED = {
    UNKNOWN: "$…",
    ANY: "*",
    ONE: "?",
    NUMBER: "$#",
    START: "$PWD",
    ROOT: "$(git rev-parse --show-toplevel)",
    HOME: "~",
    PIPE: "<(…)",
    LOOSE: "$…",
}


def split_names(text: str) -> frozenset[str]:
    """Return the names in a text as a set: long tables stay readable."""
    return frozenset(text.split())


def is_static(word: str) -> bool:
    """Return whether the word is fully known."""
    return MARKS.isdisjoint(word)


def is_unknown(word: str) -> bool:
    return UNKNOWN in word or LOOSE in word


def is_glob(word: str) -> bool:
    return ANY in word or ONE in word


def format_marked(word: str) -> str:
    """Format a marked word for a message."""
    return word if is_static(word) else "".join(_PRINTED.get(each, each) for each in word)


def fill_marks(text: str) -> str:
    """Put a plain letter in the place of each mark, so that the commands around them can be read."""
    return "".join("x" if each in MARKS else each for each in text)


NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def is_name(word: str) -> bool:
    return is_static(word) and bool(NAME.match(word))
