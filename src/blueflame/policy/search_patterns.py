"""Judge the patterns of search tools: where they can lead, and whether they aim at blocked files.

A search for everything may skip a blocked file; a search for that file is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

from blueflame.model.policy import Decision
from blueflame.paths.locks import WILDCARDS
from blueflame.policy.access import ALLOWED, PathAccess
from blueflame.policy.path_names import (
    CONTROL_CHARACTERS,
    MAX_PATH_LENGTH,
    find_path_fault,
    join_path,
    list_spellings,
    make_relative,
    normalise_path,
    sanitize_text,
)
from blueflame.policy.path_patterns import fold_text

MAX_ALTERNATIVES = 64
EXTENDED = re.compile(r"[?*+@!]\(")
STARS = re.compile(r"\*+")
ALTERNATIVES = re.compile(r"\{([^{}]*)\}")
ONE_OF = re.compile(r"\[([^\]!^\\-])\]")


class TooManyAlternatives(ValueError):
    """The pattern has more alternatives than are tried."""


def judge_glob(access: PathAccess, glob: str, folder: str) -> Decision:
    """Judge a pattern of Glob: relative to the folder, or absolute."""
    return _judge_pattern(access, glob, join_path(access.cwd, folder))


def judge_filter(access: PathAccess, filters: str, folder: str) -> Decision:
    """Judge the file filters of Grep: each at any depth of the folder unless it has a `/`."""
    if len(filters) > MAX_PATH_LENGTH or CONTROL_CHARACTERS.search(filters):
        return Decision(False, "malformed_call", f"search {sanitize_text(filters)!r}: simplify the pattern")
    for glob in _split_filters(filters):
        if glob.startswith("!") or not glob:  # excludes files
            continue
        answer = _judge_pattern(access, glob.lstrip("/") or "*", join_path(access.cwd, folder))
        if not answer.allowed:
            return answer
    return ALLOWED


def _split_filters(filters: str) -> list[str]:
    """Split at blanks and commas, but not inside braces."""
    found, depth = [""], 0
    for letter in filters:
        depth = max(0, depth + (letter == "{") - (letter == "}"))
        if depth == 0 and (letter == "," or letter.isspace()):
            found.append("")
        else:
            found[-1] += letter
    return found


def _judge_pattern(access: PathAccess, glob: str, folder: str) -> Decision:
    found = find_path_fault(glob.replace("\\", ""))
    if found:
        return Decision(False, found[0], f"search {sanitize_text(glob)!r}: {found[1]}")
    if EXTENDED.search(glob):
        return Decision(False, "malformed_call", f"search {sanitize_text(glob)}: @(a|b) is not supported; use {{a,b}}")
    try:
        variants = tuple(_expand_alternatives(ONE_OF.sub(r"\1", glob.replace("\\", ""))))
    except TooManyAlternatives:
        return Decision(
            False, "malformed_call", f"search {sanitize_text(glob)}: too many alternatives; simplify the pattern"
        )
    for variant in (*variants, *(f"**/{each}" for each in variants if "/" not in each)):  # a bare name: at any depth
        answer = _judge_variant(access, join_path(folder, variant), glob)
        if not answer.allowed:
            return answer
    return ALLOWED


def _expand_alternatives(glob: str) -> Iterator[str]:
    """Expand `{a,b}c` to `ac` and `bc`, the innermost braces first."""
    waiting, done = [glob], 0
    while waiting:
        text = waiting.pop()
        found = ALTERNATIVES.search(text)
        if found is None:
            done += 1
            yield text
        else:
            waiting += [text[: found.start()] + each + text[found.end() :] for each in found[1].split(",")]
        if done + len(waiting) > MAX_ALTERNATIVES:
            raise TooManyAlternatives


def _judge_variant(access: PathAccess, path: str, written: str) -> Decision:
    """Check the literal folders at the start as a path, and the wildcard rest by its text."""
    parts = path.split("/")
    wild = next((n for n, part in enumerate(parts) if not WILDCARDS.isdisjoint(part)), len(parts))
    start, rest = "/".join(parts[:wild]) or "/", parts[wild:]
    if ".." in rest:
        return Decision(False, "outside_worktree", f"search {sanitize_text(written)}: it uses .. after a wildcard")
    answer = access.check_read(start)
    if not answer.allowed:
        return answer
    inner = make_relative(normalise_path(start), access.rules.policy.worktree)
    if inner is None or not any(rest):
        return _judge_named(access, inner, written) if inner else ALLOWED
    return _judge_wild(access, inner, [part for part in rest if part not in ("", ".")], written)


def _judge_wild(access: PathAccess, inner: str, rest: list[str], written: str) -> Decision:
    """Refuse a pattern whose shortest match is blocked (`.key` for `*.key`), or that aims at a blocked name."""
    for shortest in ("", "\x01"):
        filled = ("" if part == "**" else STARS.sub(shortest, part).replace("?", "\x01") for part in rest)
        for form in list_spellings("/".join(part for part in (inner, *filled) if part.strip("."))):
            pattern = access.rules.blocked.find_touching(form) if form else None
            if pattern is not None:
                return _refuse_search(written, pattern)
    return _judge_named(access, "/".join((inner, *rest)), written)


def _judge_named(access: PathAccess, path: str, written: str) -> Decision:
    """Refuse a pattern with a part such as `.en?` or `.e*` that can only mean a blocked name."""
    parts = [part for part in fold_text(path).split("/") if part]
    for part in parts:
        aimed = part.strip("*") and ("*" not in part or (part.startswith(".") and part.strip(".*")))
        for aim in _find_blocked_names(access.rules.blocked.written, part) if aimed else ():
            if _is_same_folder(parts, aim.folders):
                return _refuse_search(written, aim.pattern)
    return ALLOWED


class BlockedName(NamedTuple):
    """A blocked pattern by its last name: `.env` of `.env*`, `.claude` of `.claude/**`."""

    folders: tuple[str, ...]
    pattern: str


def _find_blocked_names(blocked: tuple[str, ...], part: str) -> Iterator[BlockedName]:
    known = _index_blocked_names(blocked)
    if WILDCARDS.isdisjoint(part):
        yield from known.get(part, ())
        return
    meant = re.compile(translate(part)).match
    for name, aims in known.items():
        if meant(name):
            yield from aims


@lru_cache(maxsize=16)
def _index_blocked_names(blocked: tuple[str, ...]) -> dict[str, list[BlockedName]]:
    found: dict[str, list[BlockedName]] = {}
    for pattern in blocked:
        parts = [part for part in fold_text(pattern).strip("/").split("/") if part]
        named = [part for part in parts if part.strip("*")]
        if named and {"[", "?"}.isdisjoint(named[-1]):
            found.setdefault(STARS.sub("", named[-1]), []).append(BlockedName(tuple(parts[:-1]), pattern))
    return found


def _is_same_folder(parts: list[str], folders: tuple[str, ...]) -> bool:
    """Return whether both can mean one folder."""
    return all(
        WILDCARDS.intersection(one) or WILDCARDS.intersection(other) or one == other
        for one, other in zip(parts, folders, strict=False)
    )


def _refuse_search(written: str, pattern: str) -> Decision:
    blocked = sanitize_text(pattern, 80)
    details = f"search {sanitize_text(written)}: it asks for {blocked}, which is in blocked_paths; search elsewhere"
    return Decision(False, "blocked_path", details)
