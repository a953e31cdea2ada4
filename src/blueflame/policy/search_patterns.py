"""Patterns that a search tool is given: where they can lead, and whether they ask for what is blocked.

A search for everything may pass over a blocked file; a search for that very file may not be made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

from blueflame.model.policy import Decision
from blueflame.paths.locks import WILD
from blueflame.policy.access import ALLOWED, Places
from blueflame.policy.path_names import CONTROL, LONGEST_PATH, below, fault, forms, join, normalise, shown
from blueflame.policy.path_patterns import plain

MOST = 64
EXTENDED = re.compile(r"[?*+@!]\(")
STARS = re.compile(r"\*+")
ALTERNATIVES = re.compile(r"\{([^{}]*)\}")
ONE_OF = re.compile(r"\[([^\]!^\\-])\]")


class TooMany(ValueError):
    """More alternatives than anybody would write."""


def judge_glob(places: Places, glob: str, folder: str) -> Decision:
    """A file pattern as Glob takes it: relative to the folder, or absolute."""
    return _judged(places, glob, join(places.cwd, folder))


def judge_filter(places: Places, filters: str, folder: str) -> Decision:
    """What Grep takes to narrow its files down: one or several, each at any depth of the folder unless it has a `/`."""
    if len(filters) > LONGEST_PATH or CONTROL.search(filters):
        return Decision(False, "malformed_call", f"search {shown(filters)!r}: write a shorter and plainer pattern")
    for glob in _apart(filters):
        if glob.startswith("!") or not glob:  # leaves files out
            continue
        answer = _judged(places, glob.lstrip("/") or "*", join(places.cwd, folder))
        if not answer.allowed:
            return answer
    return ALLOWED


def _apart(filters: str) -> list[str]:
    """At blanks and commas, but not within braces."""
    found, depth = [""], 0
    for letter in filters:
        depth = max(0, depth + (letter == "{") - (letter == "}"))
        if depth == 0 and (letter == "," or letter.isspace()):
            found.append("")
        else:
            found[-1] += letter
    return found


def _judged(places: Places, glob: str, folder: str) -> Decision:
    found = fault(glob.replace("\\", ""))
    if found:
        return Decision(False, found[0], f"search {shown(glob)!r}: {found[1]}")
    if EXTENDED.search(glob):
        return Decision(
            False, "malformed_call", f"search {shown(glob)}: patterns like @(a|b) are not read; use {{a,b}}"
        )
    try:
        variants = tuple(_spelt_out(ONE_OF.sub(r"\1", glob.replace("\\", ""))))
    except TooMany:
        return Decision(
            False, "malformed_call", f"search {shown(glob)}: too many alternatives; write a simpler pattern"
        )
    for variant in (*variants, *(f"**/{each}" for each in variants if "/" not in each)):  # a bare name is at any depth
        answer = _judged_variant(places, join(folder, variant), glob)
        if not answer.allowed:
            return answer
    return ALLOWED


def _spelt_out(glob: str) -> Iterator[str]:
    """`{a,b}c` is `ac` and `bc`; the innermost braces first."""
    waiting, done = [glob], 0
    while waiting:
        text = waiting.pop()
        found = ALTERNATIVES.search(text)
        if found is None:
            done += 1
            yield text
        else:
            waiting += [text[: found.start()] + each + text[found.end() :] for each in found[1].split(",")]
        if done + len(waiting) > MOST:
            raise TooMany


def _judged_variant(places: Places, path: str, written: str) -> Decision:
    """The plain folders at its beginning are looked up as any path; the wild rest is judged by its letters."""
    parts = path.split("/")
    wild = next((n for n, part in enumerate(parts) if not WILD.isdisjoint(part)), len(parts))
    start, rest = "/".join(parts[:wild]) or "/", parts[wild:]
    if ".." in rest:
        return Decision(False, "outside_worktree", f"search {shown(written)}: it climbs with .. behind a wild card")
    answer = places.read(start)
    if not answer.allowed:
        return answer
    inner = below(normalise(start), places.bounds.policy.worktree)
    if inner is None or not any(rest):
        return _named(places, inner, written) if inner else ALLOWED
    return _wild(places, inner, [part for part in rest if part not in ("", ".")], written)


def _wild(places: Places, inner: str, rest: list[str], written: str) -> Decision:
    """What a wild pattern finds at the least (`*.key` finds `.key`) must not be blocked, nor what it is aimed at."""
    for shortest in ("", "\x01"):
        name = "/".join(part for part in (inner, *(_filled(part, shortest) for part in rest)) if part.strip("."))
        answer = _touching(places, name, written)
        if not answer.allowed:
            return answer
    return _named(places, "/".join((inner, *rest)), written)


def _filled(part: str, letters: str) -> str:
    return "" if part == "**" else STARS.sub(letters, part).replace("?", "\x01")


def _touching(places: Places, name: str, written: str) -> Decision:
    for form in forms(name):
        pattern = places.bounds.blocked.touches(form) if form else None
        if pattern is not None:
            return _asks_for(written, pattern)
    return ALLOWED


def _named(places: Places, path: str, written: str) -> Decision:
    """A part that leaves no choice (`.en?`, `.e*`) is aimed at the names that it can mean."""
    parts = [part for part in plain(path).split("/") if part]
    for part in parts:
        for aim in _aims(places.bounds.blocked.written, part) if _is_aimed(part) else ():
            if _same_folder(parts, aim.folders):
                return _asks_for(written, aim.pattern)
    return ALLOWED


def _is_aimed(part: str) -> bool:
    return bool(part.strip("*")) and ("*" not in part or (part.startswith(".") and part.strip(".*") != ""))


class Aim(NamedTuple):
    """A blocked pattern by the last name in it: `.env` of `.env*`, `.claude` of `.claude/**`."""

    folders: tuple[str, ...]
    pattern: str


def _aims(blocked: tuple[str, ...], part: str) -> Iterator[Aim]:
    known = _by_name(blocked)
    if WILD.isdisjoint(part):
        yield from known.get(part, ())
        return
    meant = re.compile(translate(part)).match
    for name, aims in known.items():
        if meant(name):
            yield from aims


@lru_cache(maxsize=16)
def _by_name(blocked: tuple[str, ...]) -> dict[str, list[Aim]]:
    found: dict[str, list[Aim]] = {}
    for pattern in blocked:
        parts = [part for part in plain(pattern).strip("/").split("/") if part]
        named = [part for part in parts if part.strip("*")]
        if named and {"[", "?"}.isdisjoint(named[-1]):
            found.setdefault(STARS.sub("", named[-1]), []).append(Aim(tuple(parts[:-1]), pattern))
    return found


def _same_folder(parts: list[str], folders: tuple[str, ...]) -> bool:
    """Whether both can mean one place: a pattern with folders is for those only."""
    return all(
        WILD.intersection(one) or WILD.intersection(other) or one == other
        for one, other in zip(parts, folders, strict=False)
    )


def _asks_for(written: str, pattern: str) -> Decision:
    details = f"search {shown(written)}: it asks for {shown(pattern, 80)}, which is in blocked_paths; search elsewhere"
    return Decision(False, "blocked_path", details)
