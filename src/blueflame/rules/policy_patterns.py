"""Path patterns of a policy: compiled where pathspec is at hand, matched where only Python's re is.

What they mean is what `rules/paths.Globs` says they mean; a property test holds the two together.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Sequence

from blueflame.model.policy import Patterns
from blueflame.rules.paths import ANY_NAME, BadPattern, Globs

LONG_NAME = ANY_NAME * 97
"""As ANY_NAME, but `?` does not match it."""


def plain(text: str) -> str:
    """The form in which blocked names are compared: `.ENV` is `.env` on the machines of half of the people."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def compile_patterns(written: Sequence[str], *, caseless: bool = False) -> Patterns:
    """Raises BadPattern for what cannot be a path rule."""
    given = tuple(written)
    meant = tuple(plain(pattern) for pattern in given) if caseless else given
    Globs(meant)  # refuses what would match nothing, or undo a rule
    return Patterns(written=given, regexes=tuple(_regex(pattern) for pattern in meant))


def _regex(pattern: str) -> str:
    from pathspec import GitIgnoreSpec  # late: whoever decides has compiled patterns and needs no library

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "[[]" is a fine glob, whatever re may think of it one day
        compiled = GitIgnoreSpec.from_lines([pattern]).patterns
    if len(compiled) != 1 or compiled[0].regex is None:
        raise BadPattern(f"the pattern {pattern!r} can match nothing; write it as in .gitignore")
    return str(compiled[0].regex.pattern)


class Matcher:
    """Answers for many patterns at once: only those whose longest plain word occurs in a name are tried at all."""

    __slots__ = ("_rules", "written")

    def __init__(self, patterns: Patterns, *, caseless: bool = False) -> None:
        self.written = patterns.written
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            self._rules = tuple(
                (_keyword(plain(pattern) if caseless else pattern), re.compile(regex).search, pattern)
                for pattern, regex in zip(patterns.written, patterns.regexes, strict=True)
            )

    def first(self, path: str) -> str | None:
        """The first pattern, as it was written, that means a file of this name; None when none does."""
        # "." and "$" in a regular expression stop at a line break, and a name may hold one; it cannot hold a NUL
        name = path.replace("\n", "\0")
        for keyword, found, pattern in self._rules:
            if keyword in name and found(name):
                return pattern
        return None

    def matches(self, path: str) -> bool:
        return self.first(path) is not None

    def touches(self, path: str) -> str | None:
        """The same for a name that may be a file, a link or a directory: what must be kept out asks this."""
        return self.first(path) or self.first(f"{path}/{ANY_NAME}")

    def covers(self, folder: str) -> bool:
        """Whether all that may be in a folder is meant, at any depth."""
        inside = f"{folder}/{LONG_NAME}" if folder else LONG_NAME
        return self.matches(inside) and self.matches(f"{inside}/{LONG_NAME}")


def _keyword(pattern: str) -> str:
    """The longest run of letters that every match must hold. After a bracket nothing is sure, so it ends there."""
    runs: list[str] = [""]
    letters = iter(pattern.partition("[")[0])
    for letter in letters:
        if letter in "*?/":
            runs.append("")
        else:
            runs[-1] += next(letters, "") if letter == "\\" else letter
    return max((run.strip() for run in runs), key=len)  # blanks at the end of a line mean nothing
