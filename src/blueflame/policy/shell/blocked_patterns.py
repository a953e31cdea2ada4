"""Match the configured blocked patterns against each simple command that would run, not against the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations

from blueflame.policy.shell.marks import format_marked, split_names

MAX_LINE_LENGTH = 2000
MAX_BUNDLE_LENGTH = 7
"""A longer word with one dash, as in find -maxdepth, is not a bundle of short options."""
_LONG_OPTIONS = {
    "--recursive": "r",
    "--force": "f",
    "--verbose": "v",
    "--dir": "d",
    "--interactive": "i",
    "--all": "a",
    "--delete": "d",
    "--hard": "H",
    "--no-preserve-root": "N",
}
_NPM_INSTALL = split_names("i in ins inst insta instal isnt isnta isntal isntall add it install-test ci clean-install")
_TAKES_VALUE = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace"),
    "npm": ("--prefix", "-C", "-w"),
    "go": ("-C",),
}


@lru_cache(maxsize=256)
def find_blocking_pattern(argv: tuple[str, ...], patterns: tuple[str, ...]) -> str | None:
    """Return the pattern that refuses this command, or None."""
    if not argv or not patterns:
        return None
    words = [format_marked(word) for word in argv]
    words[0] = words[0].rsplit("/", 1)[-1] or words[0]
    written = list(_list_forms(words))
    quick, alone = _combine_patterns(patterns)
    options = [word for word in words[1:] if word.startswith("-")]
    if quick is not None and not alone and not any(quick.match(form) for form, _ in written):
        written = []
    if quick is not None and not written and not any(quick.match(word) for word in options):
        return None
    return next((pattern for pattern in patterns if _is_blocked_by(pattern, written, words[0], options)), None)


@lru_cache(maxsize=16)
def _combine_patterns(patterns: tuple[str, ...]) -> tuple[re.Pattern[str] | None, bool]:
    """Combine the patterns into one, to see quickly that none matches; not possible if one refers to its groups."""
    alone = any(re.search(r"\\[1-9]|\(\?[aiLmsux(P]", pattern) for pattern in patterns)
    if alone:
        return None, True
    try:
        return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)), False
    except (re.error, OverflowError, RecursionError):
        return None, True


@lru_cache(maxsize=4096)
def _compile_pattern(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _is_blocked_by(pattern: str, forms: list[tuple[str, bool]], name: str, options: list[str]) -> bool:
    compiled = _compile_pattern(pattern)
    if compiled is None:
        return True  # what it was meant to refuse is unknown
    if compiled.fullmatch(name) or any(compiled.fullmatch(word[:MAX_LINE_LENGTH]) for word in options):
        return True
    return any(_is_hit(compiled, form, name, exact) for form, exact in forms)


def _is_hit(compiled: re.Pattern[str], form: str, name: str, exact: bool) -> bool:
    m = compiled.match(form)
    if m is None or m.end() <= len(name):
        return False
    words = form[: m.end()].split(" ")
    following = form[m.end() : m.end() + 1]
    ends_within = bool(words[-1]) and following not in ("", " ")
    if not ends_within or words[-1].startswith("-"):
        return True
    # `git merge` is not `git merge-base`; but for later words the pattern holds as written
    return exact and len(words) > 2


def _list_forms(words: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the command as written (True), and with its options apart, together and in any order."""
    yield _join_words(words), True
    yield f"{_join_words(words)} ", True
    name, rest = words[0], words[1:]
    letters, long, operands = _split_words(name, rest)
    plain = [name, *operands]
    yield _join_words(plain), False
    yield f"{_join_words(plain)} ", False
    if name == "npm" and operands and operands[0] in _NPM_INSTALL:
        yield _join_words([name, "install", *operands[1:]]), False
    base = re.sub(r"[\d.]+$", "", name)
    if base and base != name:
        yield _join_words([base, *operands]), False
    for size in range(1, min(3, len(letters)) + 1):
        for some in permutations(letters[:6], size):
            yield _join_words([name, f"-{''.join(some)}", *operands]), True
            if size > 1:
                yield _join_words([name, *(f"-{each}" for each in some), *operands]), True
    for option in long:
        yield _join_words([name, option, *operands]), True
        if operands:
            yield _join_words([name, operands[0], option, *operands[1:]]), True
            yield _join_words([name, *operands, option]), True


def _split_words(name: str, words: list[str]) -> tuple[list[str], list[str], list[str]]:
    letters: list[str] = []
    long: list[str] = []
    operands: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word in _TAKES_VALUE.get(name, ()) and not operands:
            at += 1
        elif word.startswith("--") and len(word) > 2:
            long.append(word)
            letters.extend(letter for full, letter in _LONG_OPTIONS.items() if len(word) > 3 and full.startswith(word))
        elif word.startswith("-") and len(word) > 1:
            letters.extend(word[1:] if len(word) <= MAX_BUNDLE_LENGTH else ())
        else:
            operands.append(word)
        at += 1
    return list(dict.fromkeys(each for each in letters if each.isalnum())), long[:8], operands


def _join_words(words: list[str]) -> str:
    return " ".join(words)[:MAX_LINE_LENGTH]
