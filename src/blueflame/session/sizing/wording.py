"""Read a request: how many things it asks for, what kind of change, and which names it mentions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blueflame.lazy_dataclass import dataclass
from blueflame.lazy_pattern import compile_later
from blueflame.session.sizing.vocabulary import (
    ACCOMPANYING,
    ADDITION,
    DOMAINS,
    FIXING,
    PRODUCT,
    RENAMING,
    SMALL,
    STRUCTURAL,
    VAGUE,
    VERBS,
    WIDE,
)

MAX_CHARS = 20_000  # what follows says no more about the size
MAX_NAMES = 8  # each is looked for in the repository

LONG_WORD = compile_later(r"\S{300,}")  # no word of a person, and slow to search
FENCED = compile_later(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
QUOTED_LINE = compile_later(r"^(?:>| {4}|\t|Traceback|  File ).*$", re.MULTILINE)
ITEM = compile_later(r" {0,3}(?:[-*•+]|\(?\d{1,2}[.)]|\[[ x]\])\s+(?=\S)")
EVIDENCE = compile_later(
    r"\b(reproduc\w*|expected|actual\w*|observed|example|output|environment|acceptance|versions?|notes?|context)\b[^\n]*:?\s*$",
    re.IGNORECASE,
)
CLAUSE = compile_later(
    r"(?<=[.;:!?])\s+|\n+|,\s+(?:and\s+)?(?:then\s+)?|\s+(?:and|then|also|plus)\s+(?:then\s+|also\s+)?"
)
OPENING = compile_later(
    r"(?:please|kindly|also|then|finally|first|next|let'?s|(?:could|can|would) you|"
    r"(?:we|i|you)(?: would|'d)? (?:should|must|need to|want to|have to|like to|want you to)|to)\s+",
    re.IGNORECASE,
)

IN_BACKTICKS = compile_later(r"`([^`\n]{1,100})`")
IN_QUOTES = compile_later(r"[\"'“\u2018]([\w-]{3,40})[\"'”\u2019]")
SYMBOL = compile_later(
    r"(?<![\w./-])(?:[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[a-z]+(?:[A-Z][a-z0-9]*)+|_{0,2}[A-Za-z][A-Za-z0-9]*_\w+|"
    r"[A-Za-z_]\w*(?=\(\))|--[a-z][\w-]+)(?![\w/-])"
)
IDENTIFIER = compile_later(r"(?:--)?[A-Za-z_][\w-]*(?:(?:\.|::|#)[A-Za-z_]\w*)*(?:\(\))?")
_PRODUCT_NAMES = (
    "github gitlab bitbucket javascript typescript postgresql mysql mongodb oauth graphql websocket websockets macos "
    "ios openapi openai devops youtube linkedin dynamodb rabbitmq restful fastapi sqlalchemy nodejs nextjs"
)
PRODUCT_NAMES = frozenset(_PRODUCT_NAMES.split())
FILE = compile_later(r"(?:\.{0,2}/)?(?:[\w.@+-]+/)*(?:[\w@+-][\w.@+-]*)?\.[A-Za-z][A-Za-z0-9]{0,11}")
FOLDER = compile_later(r"(?:\.{0,2}/)?(?:[\w.@+-]+/)+(?:[\w.@+-]+)?")
_WELL_KNOWN_FILES = "readme changelog contributing license licence makefile dockerfile gemfile justfile"
WELL_KNOWN_FILES = frozenset(_WELL_KNOWN_FILES.split())
PART = compile_later(
    r"[`'\"]?([\w./-]+)[`'\"]?\s+(?:package|module|folder|directory|service|crate|library|subpackage|component|namespace)\b"
    r"|\b(?:package|module|folder|directory|service|crate)\s+[`'\"]?([\w./-]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What a request says. Texts are the words that were found, empty for none."""

    words: int = 0
    demands: int = 1
    domains: tuple[str, ...] = ()
    small: str = ""
    wide: str = ""
    structural: str = ""
    product: str = ""
    vague: str = ""
    addition: str = ""
    is_fix: bool = False
    is_renaming: bool = False
    paths: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # words before "package", "folder" and the like
    symbols: tuple[str, ...] = ()
    vocabulary: frozenset[str] = frozenset()  # every word, in small letters


def read_wording(request: str) -> Wording:
    """Read what a person wrote; code, logs and quotations in it are not theirs."""
    written = LONG_WORD.sub(" ", request[:MAX_CHARS].replace("\r", ""))
    text = QUOTED_LINE.sub(" ", FENCED.sub(" ", written))
    prose = IN_BACKTICKS.sub(lambda found: found[1] if " " not in found[1] else "it", text)
    return Wording(
        words=len(prose.split()),
        demands=max(1, _count_demands(prose)),
        domains=tuple(name for name, words in DOMAINS.items() if words.search(prose)),
        small=next((name for name, words in SMALL.items() if words.search(prose)), ""),
        wide=_find(WIDE, prose),
        structural=_find(STRUCTURAL, prose),
        product=_find(PRODUCT, prose),
        vague=_find(VAGUE, prose),
        addition=_find(ADDITION, prose),
        is_fix=FIXING.search(prose) is not None,
        is_renaming=RENAMING.search(prose) is not None,
        paths=tuple(dict.fromkeys(_iter_paths(text))),
        parts=tuple(dict.fromkeys(one or other for one, other in PART.findall(text))),
        symbols=tuple(dict.fromkeys(_iter_symbols(text)))[:MAX_NAMES],
        vocabulary=frozenset(re.findall(r"\w+", prose.casefold())),
    )


def _find(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return " ".join(found[found.lastindex or 0].lower().split()) if found else ""


def _count_demands(text: str) -> int:
    items, prose = _split_lists(text)
    return len(items) if len(items) > 1 else sum(map(_is_demand, CLAUSE.split("\n".join([*prose, *items]))))


def _split_lists(text: str) -> tuple[list[str], list[str]]:
    """The entries of lists that ask for something, and the other lines; steps to reproduce are in neither."""
    items, prose = list[str](), list[str]()
    heading = ""
    for line in text.split("\n"):
        found = ITEM.match(line)
        if found is None:
            heading = line.strip() or heading
            prose.append(line)
        elif not EVIDENCE.search(heading) and not ACCOMPANYING.match(line, found.end()):
            items.append(line[found.end() :])
    return items, prose


def _is_demand(clause: str) -> bool:
    words = clause.strip(" \t-*•`'\"(")
    while opening := OPENING.match(words):
        words = words[opening.end() :]
    first = words.split(None, 1)[0].casefold().rstrip(",.:;") if words.split() else ""
    return first in VERBS and not ACCOMPANYING.match(words)


def _iter_paths(text: str) -> Iterator[str]:
    for word in text.split():
        if "://" in word or "*" in word.strip("*"):
            continue
        bare = word.strip("`'\"“”\u2018\u2019()[]{}<>,;:!?*").rstrip(".")
        bare = re.sub(r":\d+(?::\d+)?$", "", bare).removesuffix("'s").removesuffix("()")
        if FILE.fullmatch(bare) or FOLDER.fullmatch(bare) or bare.casefold() in WELL_KNOWN_FILES:
            yield bare.removeprefix("./")


def _iter_symbols(text: str) -> Iterator[str]:
    named = [found for found in IN_BACKTICKS.findall(text) if IDENTIFIER.fullmatch(found) and len(found) > 2]
    quoted = [found for found in IN_QUOTES.findall(text) if not found.isdigit()]
    for name in (*named, *SYMBOL.findall(text), *quoted):
        bare = re.split(r"\.|::|#", name.removesuffix("()"))[-1]
        if len(bare) > 2 and bare.casefold() not in PRODUCT_NAMES:
            yield bare
