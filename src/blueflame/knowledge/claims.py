"""Compare what two entries say: the same, nearly the same, or the opposite. By words alone, so only a hint."""

from __future__ import annotations

import re

from blueflame.model.memory import Lesson
from blueflame.session.sizing.similar import compare_words, extract_words

REJECTED, FAILED, CURE = "a reviewer rejected it", "a check failed", ". What landed changed "
"""How a mistake is worded: `the task: a reviewer rejected it: why. What landed changed these files`."""
NEAR = 0.8  # share of words that two entries about the same have in common when they say the same
RELATED = 0.6  # and when one may contradict the other
MIN_SHARED_WORDS = 2
WORD = re.compile(r"\w+(?:['’]\w+)?")  # noqa: RUF001 - people write both
_NEGATIONS = (
    "not no never cannot without neither nor avoid unsupported broken impossible fail fails failed forbidden stop "
    "unavailable unable don doesn isn aren wasn weren won can couldn shouldn mustn didn does did"
)
NEGATIONS = frozenset(_NEGATIONS.split())
NEUTRAL = frozenset(("can", "does", "did"))  # dropped from the words, but they negate nothing
_OPPOSITES = (
    "always never|enable disable|enabled disabled|allow forbid|allowed forbidden|required optional|before after|"
    "use avoid|sync async|true false|works fails|faster slower|tabs spaces|first last|add remove|increase decrease"
)
OPPOSITES = tuple((one, other) for one, _, other in (pair.partition(" ") for pair in _OPPOSITES.split("|")))
OPPOSING = frozenset(word for pair in OPPOSITES for word in pair)
NEGATIVE_CLAIM = re.compile(
    r"\b(?:(?:does|did|is|was|are|will|can|could) ?not|(?:does|did|is|was|are|wo|ca|could)n['’]t|no longer)"  # noqa: RUF001
    r"\s+(?:\w+\s+)?(?:works?|working|supports?|supported|runs?|possible|available|implemented|exists?|compiles?)\b"
    r"|\b(?:unsupported|broken|impossible|unavailable|missing)\b|\bthere is no\b|\bfails\b",
    re.IGNORECASE,
)


CAUSE = re.compile(rf": (?:{REJECTED}|{FAILED}): (.+?)(?:{re.escape(CURE)}.*)?$", re.DOTALL)


def normalize_words(text: str) -> str:
    """The same for two texts that differ only in case, punctuation and spaces."""
    return " ".join(WORD.findall(text.casefold()))


def is_negative_claim(text: str) -> bool:
    """Whether it says that something does not work: such entries are out of date first, and do most harm then."""
    return NEGATIVE_CLAIM.search(text) is not None


def says_nearly_the_same(one: Lesson, other: Lesson) -> bool:
    """In nearly the same words about the same files, or one reason to send work back, whatever the work was."""
    if (cause := _find_cause(one)) and cause == _find_cause(other):
        return True
    if not shares_subject(one, other) or is_opposite(one.text, other.text):
        return False
    return compare_words(extract_words(one.text), extract_words(other.text)) >= NEAR


def _find_cause(lesson: Lesson) -> str:
    """What a reviewer or a check said of a result; "" for other lessons."""
    found = CAUSE.search(lesson.text) if lesson.about == "mistake" else None
    return normalize_words(found[1]) if found else ""


def contradicts(one: Lesson, other: Lesson) -> bool:
    if not shares_subject(one, other) or not is_opposite(one.text, other.text):
        return False
    mine, theirs = _extract_content(one.text), _extract_content(other.text)
    return len(mine & theirs) >= MIN_SHARED_WORDS and compare_words(mine, theirs) >= RELATED


def shares_subject(one: Lesson, other: Lesson) -> bool:
    """Whether both name a same file or symbol, or neither names any."""
    mine = {*one.origin.files, *one.symbols}
    theirs = {*other.origin.files, *other.symbols}
    return bool(mine & theirs) or not (mine or theirs)


def is_opposite(one: str, other: str) -> bool:
    mine, theirs = set(_list_words(one)), set(_list_words(other))
    if _is_negated(mine) != _is_negated(theirs):
        return True
    return any(
        (a in mine - theirs and b in theirs - mine) or (b in mine - theirs and a in theirs - mine) for a, b in OPPOSITES
    )


def _is_negated(words: set[str]) -> bool:
    return any(word.endswith(("n't", "n’t")) or word in NEGATIONS - NEUTRAL for word in words)  # noqa: RUF001


def _list_words(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def _extract_content(text: str) -> frozenset[str]:
    """Without what negates, and without the s of a plural or a verb."""
    return frozenset(word.removesuffix("s") for word in extract_words(text) - NEGATIONS - OPPOSING - {"work"})
