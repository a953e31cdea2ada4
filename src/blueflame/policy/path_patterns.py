"""Path patterns of a policy: compiled with pathspec, matched with only Python's re.

They mean the same as in `paths/globs.Globs`; a property test compares the two.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from blueflame.model.policy import Patterns
from blueflame.paths.globs import ANY_NAME, BadPattern, Globs

LONG_NAME = ANY_NAME * 97
"""As ANY_NAME, but not matched by `?`."""


def fold_text(text: str) -> str:
    """Fold a blocked name for comparison: `.ENV` is `.env` on many machines."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def compile_patterns(written: Sequence[str], *, caseless: bool = False) -> Patterns:
    """Compile patterns. Raises BadPattern for what cannot be a path rule."""
    given = tuple(written)
    meant = tuple(fold_text(pattern) for pattern in given) if caseless else given
    Globs(meant)  # rejects what matches nothing or undoes a rule
    return Patterns(written=given, regexes=tuple(_compile_regex(pattern) for pattern in meant))


def _compile_regex(pattern: str) -> str:
    from pathspec import GitIgnoreSpec  # late: deciding needs only compiled patterns, no library

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "[[]" is a valid glob; re warns about it
        compiled = GitIgnoreSpec.from_lines([pattern]).patterns
    if len(compiled) != 1 or compiled[0].regex is None:
        raise BadPattern(f"the pattern {pattern!r} can match nothing; write it as in .gitignore")
    return str(compiled[0].regex.pattern)


class CompiledPattern(NamedTuple):
    n: int  # rules are tried in the order in which they were written
    found: Callable[[str], object]
    pattern: str


class PatternMatcher:
    """Matches many patterns: tries only those whose longest literal run is in the name."""

    __slots__ = ("_anywhere", "_ends", "_lengths", "_starts", "written")

    def __init__(self, patterns: Patterns, *, caseless: bool = False) -> None:
        self.written = patterns.written
        self._starts: dict[str, list[CompiledPattern]] = {}  # by a run that a part of the path begins with
        self._ends: dict[str, list[CompiledPattern]] = {}  # by one that a part ends with
        self._anywhere: list[tuple[str, CompiledPattern]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            for n, (pattern, regex) in enumerate(zip(patterns.written, patterns.regexes, strict=True)):
                run = _find_longest_run(fold_text(pattern) if caseless else pattern)
                self._add(run, CompiledPattern(n, re.compile(regex).search, pattern))
        self._lengths = sorted({len(run) for runs in (self._starts, self._ends) for run in runs})

    def _add(self, run: LiteralRun, rule: CompiledPattern) -> None:
        if run.starts:
            self._starts.setdefault(run.text, []).append(rule)
        elif run.ends:
            self._ends.setdefault(run.text, []).append(rule)
        else:
            self._anywhere.append((run.text, rule))

    def find_first(self, path: str) -> str | None:
        """Return the first pattern, as written, that matches a file of this name."""
        # "." and "$" in a regular expression stop at a line break, and a name may hold one; it cannot hold a NUL
        name = path.replace("\n", "\0")
        return next((rule.pattern for rule in sorted(self._list_candidates(name)) if rule.found(name)), None)

    def _list_candidates(self, name: str) -> Iterator[CompiledPattern]:
        starts, ends = self._starts, self._ends
        for part in set(name.split("/")):
            for length in self._lengths:
                if length > len(part):
                    break
                yield from starts.get(part[:length], ())
                yield from ends.get(part[-length:], ())
        for run, rule in self._anywhere:
            if run in name:
                yield rule

    def matches(self, path: str) -> bool:
        return self.find_first(path) is not None

    def find_touching(self, path: str) -> str | None:
        """Return the first pattern that matches a name that may be a file, a link or a directory."""
        return self.find_first(path) or self.find_first(f"{path}/{ANY_NAME}")

    def covers(self, folder: str) -> bool:
        """Return whether everything in a folder matches, at any depth."""
        inside = f"{folder}/{LONG_NAME}" if folder else LONG_NAME
        return self.matches(inside) and self.matches(f"{inside}/{LONG_NAME}")


class LiteralRun(NamedTuple):
    """Literal text that every match holds: at the start or the end of a path part, or anywhere."""

    text: str
    starts: bool = False
    ends: bool = False


def _find_longest_run(pattern: str) -> LiteralRun:
    """Return the longest literal run before the first bracket, after which nothing is certain."""
    sure, bracket, _ = pattern.partition("[")
    runs: list[LiteralRun] = [LiteralRun("")]
    parts = _split_parts(sure)
    for n, part in enumerate(parts):
        whole = n < len(parts) - 1 or not bracket
        for m, text in enumerate(part):
            if text == text.strip():  # blanks at the end of a line mean nothing
                runs.append(LiteralRun(text, starts=m == 0, ends=whole and m == len(part) - 1))
    return max((run for run in runs if run.text or run == runs[0]), key=lambda run: len(run.text))


def _split_parts(pattern: str) -> list[list[str]]:
    """Split at slashes and each part at its wildcards; a backslash escapes the next character."""
    parts = [[""]]
    letters = iter(pattern)
    for letter in letters:
        if letter == "/":
            parts.append([""])
        elif letter in "*?":
            parts[-1].append("")
        else:
            parts[-1][-1] += next(letters, "") if letter == "\\" else letter
    return parts
