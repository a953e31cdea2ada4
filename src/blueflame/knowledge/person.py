"""An entry that a person gives on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blueflame.knowledge.entry import build_blank, build_key, canonicalize_text
from blueflame.model.errors import UsageError
from blueflame.model.memory import DOMAIN_FOLDER, FILE_KINDS, Lesson
from blueflame.model.suggestions import suggest
from blueflame.paths.locks import BadLock, parse_lock

MAX_CHARS = 10_000


def build_own_lesson(text: str, *, name: str, paths: Sequence[str], at: float) -> Lesson:
    """Raise UsageError for a file that does not exist, a path outside of the repository, or no words."""
    words = canonicalize_text(text)
    name = name.removesuffix(".md")
    folder, _, domain = name.partition("/")
    if name not in FILE_KINDS and (folder != DOMAIN_FOLDER or not domain):
        hint = suggest(name, FILE_KINDS) or f"use {', '.join(FILE_KINDS)} or {DOMAIN_FOLDER}/NAME"
        raise UsageError(f"--file: there is no knowledge file {name!r}: {hint}")
    if not words or len(words) > MAX_CHARS:
        raise UsageError(f"the text has {len(words):,} characters: write between 1 and {MAX_CHARS:,}")
    try:
        tuple(map(parse_lock, paths))
    except BadLock as error:
        raise UsageError(f"--path: {error}") from error
    blank = build_blank(name)
    return replace(
        blank, key=build_key(name, words), text=words, origin=replace(blank.origin, at=at, files=tuple(paths))
    )
