"""Judge whether a text is random: words, examples and placeholders are not secrets."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import log2
from typing import Final

# These pairs are nine tenths of the letter pairs in words of programs, and three tenths of those in a random text.
LETTER_PAIRS: Final = (
    "ab ac ad ag ai ak al am an ap ar as at au av ay ba be bl bo bu ca ce ch ci ck cl co cr ct cu da de di do ds du ea "
    "ec ed ee ef eg el em en ep eq er es et ev ex fa fe ff fi fl fo fr fu ge gi gr gs ha he hi ho ia ib ic id ie if ig "
    "il im in io ip ir is it iv iz ke ki ks la ld le li ll lo ls lt lu ly ma me mi mm mo mp na nc nd ne nf ng ni nn no "
    "ns nt nu ob oc od ok ol om on oo op or os ot ou ov ow pa pe pi pl po pp pr pt qu ra rc rd re rg ri rm rn ro rr rs "
    "rt ru ry sa sc se sh si so sp ss st su ta tc te th ti tl to tr ts tt tu ty ub ue ui ul um un up ur us ut va ve vi "
    "wa we wh wi wo wr xt yp yt ze"
)
COMMON_LETTER_PAIRS: Final = frozenset(LETTER_PAIRS.split())
WORD = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
EXAMPLE_VALUE = re.compile(
    r"(?i)example|placeholder|change_?me|your[_-]|dummy|fake|redacted|xxxx|\*\*\*\*|\.\.\.|00000000|12345678|abcdefgh|"
    r"deadbeef|IkpvaG4gRG9l"  # the last is John Doe, in base64: the subject of example JSON web tokens
)
PLACEHOLDER = re.compile(
    r"(?i)test|sample|mock|fixture|todo|passw|secret|token|default|insert|replace|dummy|\{\{|\$\{|%\(|%s|<|"
    r"environ|getenv|process\.env|lorem|foobar|qwerty|hunter2|letmein|correct.?horse|^\$|^~?/[a-z.]{2,}/|://"
)
HEX = re.compile(r"[0-9a-fA-F-]+")
MAX_WORD_SHARE = 0.6
MIN_ENTROPY, MIN_HEX_ENTROPY = 3.2, 2.8
MIN_DISTINCT_LETTERS = 8


def is_example(text: str) -> bool:
    """Whether it is an example from a manual: AKIAIOSFODNN7EXAMPLE, ghp_xxxx."""
    return EXAMPLE_VALUE.search(text) is not None


def is_placeholder(text: str) -> bool:
    """Whether it is meant to be replaced, is for a test, or only names where the secret is."""
    return is_example(text) or PLACEHOLDER.search(text) is not None


def is_random(text: str) -> bool:
    if len(set(text)) < MIN_DISTINCT_LETTERS or not any(letter.isalnum() for letter in text):
        return False
    least = MIN_HEX_ENTROPY if HEX.fullmatch(text) else MIN_ENTROPY
    if compute_entropy(text) < least or not _is_mixed(text):
        return False
    return _count_word_letters(text) < MAX_WORD_SHARE * len(text)


def compute_entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * log2(count / len(text)) for count in counts)


def _is_mixed(text: str) -> bool:
    """Whether it has letters and digits, or capitals inside words."""
    digits = any(letter.isdigit() for letter in text)
    letters = any(letter.isalpha() for letter in text)
    turns = sum(a.islower() != b.islower() for a, b in pairwise(text) if a.isalpha() and b.isalpha())
    return letters and (digits or turns >= 5)


def _count_word_letters(text: str) -> int:
    """Count the letters that are part of a readable word."""
    count = 0
    for word in WORD.findall(text):
        pairs = ["".join(pair) in COMMON_LETTER_PAIRS for pair in pairwise(word.lower())]
        count += len(word) if sum(pairs) >= 0.6 * len(pairs) else 0
    return count
