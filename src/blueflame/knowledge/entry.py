"""One entry of a knowledge file: a bullet with its words, and one comment with where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import quote, unquote

from blueflame.model.memory import BY_HAND, DOMAIN_FOLDER, FILE_KINDS, Lesson, Origin, Source, get_knowledge_file
from blueflame.text.format import format_time

FACTS = re.compile(r"\s*<!-- id: (.*?) -->\s*")
SPECIAL = re.compile("[%;,<>\x00-\x1f\x7f-\xa0\u2028\u2029]|^ | $|  +")
INDENT = "  "


class BadEntry(ValueError):
    """The facts of an entry cannot be read."""


def canonicalize_text(text: str) -> str:
    """Return the words as a file can hold them: no lines that look like facts, no blank lines at the ends."""
    lines = [line.rstrip() for line in re.sub("\r\n?", "\n", text).split("\n")]
    kept = [line.replace("<!--", "<! --", 1) if FACTS.fullmatch(line) else line for line in lines]
    return "\n".join(kept).strip("\n").lstrip()


def format_entry(lesson: Lesson, contradicts: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the lines of an entry, with a blank one at the end."""
    first, *more = canonicalize_text(lesson.text).split("\n")
    words = (f"- {first}".rstrip(), *(f"{INDENT}{line}".rstrip() for line in more))
    return (*words, INDENT + format_facts(lesson, contradicts), "")


def format_facts(lesson: Lesson, contradicts: Sequence[str] = ()) -> str:
    """Use counts are not among them: a file should change only when it says something new."""
    facts = [f"{name}: {value}" if value else name for name, value in _list_facts(lesson, contradicts)]
    return f"<!-- {'; '.join(facts)} -->"


def _list_facts(lesson: Lesson, contradicts: Sequence[str]) -> Iterator[tuple[str, str]]:
    origin = lesson.origin
    named = {
        "id": (lesson.key,),
        "about": (lesson.about,),
        "by": (origin.source.value,),
        "session": (origin.session if origin.session != BY_HAND else "",),
        "task": (origin.task,),
        "attempt": (origin.attempt,),
        "commit": (origin.commit,),
        "date": (format_day(origin.at),),
        "files": origin.files,
        "symbols": lesson.symbols,
        "superseded by": (lesson.superseded_by,),
        "contradicts": contradicts,
        "archived": (lesson.archived,),
    }
    for name, values in named.items():
        if any(values):
            yield name, ", ".join(_encode_value(value) for value in values if value)
    for name, holds in (("confirmed", lesson.confirmed), ("stale", lesson.stale)):
        if holds:
            yield name, ""


def format_day(at: float) -> str:
    return format_time(at, "%Y-%m-%d", zone=UTC) if at > 0 else ""


def _encode_value(value: str) -> str:
    return SPECIAL.sub(lambda match: quote(match[0], safe="", errors="surrogatepass"), value)


def parse_facts(line: str, words: str, name: str) -> Lesson:
    """Read a lesson of the file `name` from its facts and its words. Raise BadEntry."""
    match = FACTS.fullmatch(line)
    if match is None:
        raise BadEntry("expected <!-- id: ...; by: ... -->")
    facts = dict(map(_split_fact, f"id: {match[1]}".split(";")))
    get = {each: _decode_value(value) for each, value in facts.items()}.get
    origin = Origin(
        session=get("session", BY_HAND),
        task=get("task", ""),
        attempt=get("attempt", ""),
        commit=get("commit", ""),
        at=_parse_day(get("date", "")),
        files=_split_list(facts.get("files", "")),
        source=_parse_source(get("by", Source.PERSON.value)),
    )
    blank = build_blank(name)
    if not get("id"):
        raise BadEntry("the id is empty: delete the comment to make it an entry of your own")
    lesson = replace(
        blank,
        key=get("id", ""),
        origin=origin,
        text=words,
        about=get("about", blank.about),
        symbols=_split_list(facts.get("symbols", "")),
        confirmed="confirmed" in facts,
        stale="stale" in facts,
        superseded_by=get("superseded by", ""),
    )
    moved = get_knowledge_file(lesson).name != name  # by a person, from another file
    return replace(lesson, about=blank.about) if moved else lesson


def find_id(line: str) -> str:
    """The id in a line of facts, also if the rest of it cannot be read."""
    match = FACTS.fullmatch(line)
    return _decode_value(match[1].partition(";")[0].strip(" ")) if match else ""


def build_blank(name: str) -> Lesson:
    """A lesson that a person writes into the file `name`, before it has words and a key."""
    folder, _, domain = name.partition("/")
    in_domain = folder == DOMAIN_FOLDER and domain != ""
    return Lesson(
        key="",
        origin=Origin(session=BY_HAND, source=Source.PERSON),
        text="",
        about="note" if in_domain else FILE_KINDS.get(name, "note"),
        domain=domain if in_domain else "",
        confirmed=True,
    )


def build_key(name: str, words: str) -> str:
    """The key of an entry that a person wrote: the same for the same words, so that reading twice adds nothing."""
    return f"person:{_digest(f'{name}: {words}')[:10]}"


def digest_words(lesson: Lesson) -> str:
    return _digest(lesson.text)


def digest_subject(lesson: Lesson) -> str:
    """Of what a person may change in the facts of an entry."""
    return _digest("\n".join([str(lesson.confirmed), *lesson.origin.files, "", *lesson.symbols]))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _split_fact(fact: str) -> tuple[str, str]:
    name, _, value = fact.partition(":")
    return name.strip(), value.strip(" ")


def _decode_value(value: str) -> str:
    return unquote(value, errors="surrogatepass")


def _split_list(value: str) -> tuple[str, ...]:
    return tuple(_decode_value(each.strip(" ")) for each in value.split(",") if each.strip(" "))


def _parse_day(text: str) -> float:
    if not text:
        return 0.0
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise BadEntry(f"the date is {text!r}: write it as 2026-11-17") from error


def _parse_source(text: str) -> Source:
    sources: Mapping[str, Source] = {each.value: each for each in Source}
    if text not in sources:
        raise BadEntry(f"by: {text!r} is not known: use {', '.join(sources)}")
    return sources[text]
