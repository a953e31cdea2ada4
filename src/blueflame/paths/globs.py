"""Path patterns as in .gitignore: `.env*` at any depth, `src/**` all below src, `docs/` a directory, `/x` at the top.

A pattern that matches nothing by mistake would be a hole in a wall, so what .gitignore silently ignores (an empty line,
a comment, an unclosed bracket) is refused, and so is negation (`!`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

from blueflame.lazy_dataclass import dataclass
from blueflame.paths.locks import WILDCARDS, parse_lock

ANY_NAME = "\x01"
"""Stands for any name: no pattern contains it literally, so one that matches it matches every name there."""


class BadPattern(ValueError):
    """A pattern that cannot be a path rule."""


@dataclass(frozen=True, slots=True)
class Globs:
    """A path matches when any of the patterns does. No patterns match nothing."""

    patterns: tuple[str, ...]

    def __post_init__(self) -> None:
        _compile_patterns(self.patterns)  # a bad pattern is refused here, not at the first match

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def matches(self, path: str) -> bool:
        """Whether a file matches; its path is relative to the repository."""
        # "." and "$" in a regular expression stop at a line break, which a name can contain; it cannot contain a NUL
        name = path.replace("\n", "\0").removeprefix("/").removeprefix("./")
        return bool(self.patterns) and _compile_patterns(self.patterns).search(name) is not None

    def touches(self, path: str) -> bool:
        """Whether a path that may be a file, a link or a directory matches, or everything in it does."""
        return self.matches(path) or self.matches(f"{path}/{ANY_NAME}")

    def covers_lock(self, lock: str) -> bool:
        """Whether everything that a lock covers matches: `src/` is inside `src/**`, `.` is not."""
        if not WILDCARDS.isdisjoint(lock):
            return all(self.matches(sample) for sample in _list_sample_names(lock))
        path = "/".join(parse_lock(lock))
        inside = f"{path}/{ANY_NAME}" if path else ANY_NAME
        return bool(path and self.matches(path)) or (self.matches(inside) and self.matches(f"{inside}/{ANY_NAME}"))


def _list_sample_names(glob: str) -> Iterator[str]:
    """Yield names that represent everything a glob can match: one where `**` is short, one where it is long."""
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    for depth in (ANY_NAME, f"{ANY_NAME}/{ANY_NAME}"):
        yield "/".join(depth if part == "**" else _replace_wildcards(part) for part in parts)


def _replace_wildcards(part: str) -> str:
    return "".join(ANY_NAME if letter in WILDCARDS else letter for letter in part)


@lru_cache(maxsize=256)
def _compile_patterns(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression for all: it takes a fifth of the time that pathspec takes to try them one by one."""
    from pathspec import GitIgnoreSpec  # late: it takes 50 ms, and `blueflame --help` needs no patterns

    for pattern in patterns:
        _check_pattern(pattern)
    try:
        with warnings.catch_warnings():
            # "[[]" is a valid glob; the warning is about what pathspec passes to re
            warnings.simplefilter("ignore", FutureWarning)
            regexes = [each.regex for each in GitIgnoreSpec.from_lines(patterns).patterns]
            # the name marks a folder for exceptions, which are refused; no bracket contains a slash
            parts = [regex.pattern.replace("(?P<ps_d>/)", "/") for regex in regexes if regex is not None]
            joined = re.compile("|".join(parts))
    except (ValueError, re.error) as error:
        raise BadPattern(f"{error}; write the pattern as in .gitignore") from None
    for pattern, regex in zip(patterns, regexes, strict=True):
        if regex is None:
            raise BadPattern(f"the pattern {pattern!r} can match nothing; write it as in .gitignore")
    return joined


def _check_pattern(pattern: str) -> None:
    if not pattern.strip():
        raise BadPattern(f'the pattern {pattern!r} is empty; for the whole repository write "**"')
    if pattern.startswith("!"):
        raise BadPattern(f'the pattern {pattern!r} starts with "!"; list what is meant, exceptions are not supported')
    if pattern.startswith("#"):
        raise BadPattern(f"the pattern {pattern!r} reads as a comment; write \\# for a name that starts with #")
    if any(ord(letter) < ord(" ") for letter in pattern):
        raise BadPattern(f"the pattern {pattern!r} holds a control character; write a plain pattern")
