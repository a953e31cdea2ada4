"""The words by which texts are compared: without a model, and the same in every index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from blueflame.model.memory import Lesson, MemoryRecord, get_headline
from blueflame.session.sizing.similar import extract_words

MAX_QUERY_WORDS = 24
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
ENDING = re.compile(r"(?<=\w{3})(?:ings?|ied|ies|ed|es|s)$")


def split_humps(text: str) -> str:
    """`parseConfigFile` also as `parse Config File`: people write either."""
    spaced = HUMP.sub(" ", text)
    return text if spaced == text else f"{text} {spaced}"


def list_query_words(text: str) -> tuple[str, ...]:
    """The first significant words of a text, each once."""
    known = extract_words(split_humps(text))
    ordered = dict.fromkeys(word for word in re.findall(r"\w+", split_humps(text).casefold().replace("_", " ")))
    return tuple(word for word in ordered if word in known)[:MAX_QUERY_WORDS]


@lru_cache(maxsize=20_000)
def stem_word(word: str) -> str:
    """Without a common English ending: only to tell which words two texts share."""
    return ENDING.sub("", word)


def find_shared_words(words: tuple[str, ...], record: MemoryRecord) -> tuple[str, ...]:
    """Those of the words that a record is about; of two forms of one word the first."""
    title, body = split_record(record)
    about = {stem_word(word) for word in extract_words(split_humps(f"{title} {body}"))}
    return tuple(word for stem, word in index_stems(words).items() if stem in about)


def index_stems(words: tuple[str, ...]) -> Mapping[str, str]:
    """The first word of each stem: `test` and `tests` say the same."""
    found: dict[str, str] = {}
    for word in words:
        found.setdefault(stem_word(word), word)
    return found


def split_record(record: MemoryRecord) -> tuple[str, str]:
    """What search looks at: the line that stands for a record, and the rest."""
    rest = [getattr(record, "reason", ""), *record.origin.files]
    rest += record.symbols if isinstance(record, Lesson) else ()
    return get_headline(record), " ".join(rest)
