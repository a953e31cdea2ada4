"""What a person changed in the knowledge files since we last wrote or read them: a three-way comparison by entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from blueflame.knowledge.entry import build_blank, build_key, canonicalize_text, digest_subject, digest_words
from blueflame.knowledge.page import Block, KnowledgePage
from blueflame.lazy_dataclass import dataclass
from blueflame.model.memory import Lesson, Source, get_knowledge_file

ESSENTIAL = "essential:"  # with the name of a file: the key of that section

Digests = Mapping[str, str]
"""The entries of a file by their keys: the digest of their words, and of their subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What we know of a file: what was in it last, and what we were about to write."""

    entries: Digests
    intended: Digests | None = None  # None: no write was begun that did not end


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    lessons: tuple[Lesson, ...] = ()  # new and changed
    forgotten: tuple[str, ...] = ()  # keys of the entries that a person deleted
    unsure: tuple[str, ...] = ()  # files that lack entries and their last line: nothing is forgotten


def assign_keys(pages: Sequence[KnowledgePage]) -> tuple[KnowledgePage, ...]:
    """Give each entry a key of its own: entries without an id, and copies of an entry."""
    taken: dict[str, str] = {}  # words by key
    own = {
        (page.file.name, block.line): _reserve(block.lesson, taken)
        for page in pages
        for block in page.blocks
        if block.lesson is not None
    }
    return tuple(
        replace(
            page,
            blocks=tuple(
                block
                if block.lesson is None or own[page.file.name, block.line]
                else _assign_key(block, page.file.name, taken)
                for block in page.blocks
            ),
        )
        for page in pages
    )


def _reserve(lesson: Lesson, taken: dict[str, str]) -> bool:
    """Whether it has an id that no entry before it has."""
    if not lesson.key or lesson.key in taken:
        return False
    taken[lesson.key] = lesson.text
    return True


def _assign_key(block: Block, name: str, taken: dict[str, str]) -> Block:
    if block.lesson is None:
        return block
    words = block.lesson.text
    key = build_key(name, words)
    while key in taken and taken[key] != words:  # of an entry whose words were these, before they were changed
        key = build_key(name, f"{words} {key}")
    if key in taken:  # the same words twice: the second stays as it is
        return replace(block, lesson=None, key="")
    taken[key] = words
    return replace(block, lesson=replace(build_blank(name), key=key, text=words), key=key)


def digest_entries(page: KnowledgePage) -> dict[str, str]:
    return {each.key: f"{digest_words(each)} {digest_subject(each)}" for each in page.lessons}


def find_edits(
    pages: Sequence[KnowledgePage],
    known: Mapping[str, Lesson],
    recorded: Mapping[str, Recorded],
    *,
    readable: bool,
    at: float,
) -> Edits:
    """`pages` have keys; `readable`: every file could be read, else an entry that is missing may have moved there."""
    here = {block.key for page in pages for block in page.blocks if block.key}
    missing = {page.file.name: [key for key in _list_expected(recorded, page) if key not in here] for page in pages}
    unsure = {page.file.name for page in pages if missing[page.file.name] and not page.complete}
    gone = [key for name, keys in missing.items() if readable and name not in unsure for key in keys]
    whole = [page for page in pages if page.file.name not in unsure]  # the last entry of others may be cut off
    changed = [each for page in whole for each in _list_changed(page, known, recorded, at)]
    essential = [each for page in whole for each in _compare_essential(page, known, at)]
    emptied = [ESSENTIAL + page.file.name for page in pages if not page.essential and page.complete]
    return Edits(
        lessons=(*changed, *essential),
        forgotten=tuple(key for key in (*gone, *emptied) if key in known),
        unsure=tuple(sorted(unsure)),
    )


def _list_expected(recorded: Mapping[str, Recorded], page: KnowledgePage) -> Iterator[str]:
    """Entries that were in the file, whether or not our last write was finished."""
    last = recorded.get(page.file.name, Recorded(entries={}))
    for key in last.entries:
        if last.intended is None or key in last.intended:
            yield key


def _list_changed(
    page: KnowledgePage, known: Mapping[str, Lesson], recorded: Mapping[str, Recorded], at: float
) -> Iterator[Lesson]:
    bases = _list_bases(recorded)
    for entry in page.lessons:
        before, base = known.get(entry.key), bases.get(entry.key, ())
        if before is not None:
            after = _change(before, entry, base)
            if after != before:
                yield after
        elif not _has_words(base, entry):  # else it was forgotten, and leaves the file with the next write
            yield entry if entry.origin.at else replace(entry, origin=replace(entry.origin, at=at))


def _list_bases(recorded: Mapping[str, Recorded]) -> dict[str, list[str]]:
    bases: dict[str, list[str]] = {}
    for each in recorded.values():
        for digests in (each.entries, each.intended or {}):
            for key, digest in digests.items():
                bases.setdefault(key, []).append(digest)
    return bases


def _change(before: Lesson, entry: Lesson, bases: Sequence[str]) -> Lesson:
    """What the person changed, and nothing else: the memory may have changed the rest meanwhile."""
    after = before
    if not _has_words(bases, entry) and canonicalize_text(before.text) != entry.text:
        origin = replace(before.origin, source=Source.PERSON)
        after = replace(
            after, text=entry.text, origin=origin, confirmed=True, stale=False, superseded_by="", archived=""
        )
    if bases and not any(base.endswith(f" {digest_subject(entry)}") for base in bases):
        origin = replace(after.origin, files=entry.origin.files)
        confirmed = entry.confirmed or after.text != before.text
        after = replace(after, origin=origin, symbols=entry.symbols, confirmed=confirmed)
    if not bases:  # brought back by hand
        after = replace(after, archived="")
    if get_knowledge_file(entry).name != get_knowledge_file(before).name:
        after = replace(after, domain=entry.domain, about=entry.about)
    return after


def _has_words(bases: Sequence[str], entry: Lesson) -> bool:
    return any(base.startswith(f"{digest_words(entry)} ") for base in bases)


def _compare_essential(page: KnowledgePage, known: Mapping[str, Lesson], at: float) -> Iterator[Lesson]:
    key = ESSENTIAL + page.file.name
    before = known.get(key)
    if page.essential and (before is None or before.text != page.essential):
        blank = build_blank(page.file.name)
        yield replace(blank, key=key, text=page.essential, origin=replace(blank.origin, at=at))
