"""A Markdown file that a person wrote as a request: its open items as tasks, or its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise

from blueflame.lazy_dataclass import dataclass
from blueflame.model.task import Task
from blueflame.paths.locks import BadLock, parse_lock
from blueflame.text.sanitize import shorten_line

ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\][ \t]+(\S.*)")
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
FILES = re.compile(r"[ \t]*(?:[-*+][ \t]+)?files:[ \t]*(\S.*)", re.IGNORECASE)
TAB_WIDTH = 4
MAX_ITEMS = 200
MAX_TITLE_CHARS = 120
MAX_DETAIL_CHARS = 6_000
MAX_INTRODUCTION_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistItem:
    title: str
    details: str  # the lines below it, and the heading above
    files: tuple[str, ...]  # of a line `files: src/a.py, tests`
    is_done: bool

    @property
    def digest(self) -> str:
        return compute_digest("\n".join((self.title, self.details)))[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    title: str
    introduction: str  # what is written before the first item
    items: tuple[ChecklistItem, ...]

    @property
    def open_items(self) -> tuple[ChecklistItem, ...]:
        return tuple(item for item in self.items if not item.is_done)


def compute_digest(text: str) -> str:
    """The identity of a text; blanks at the ends of lines do not count."""
    lines = (line.rstrip() for line in text.strip().splitlines())
    return sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def parse_plan_document(text: str) -> PlanDocument:
    lines = text.expandtabs(TAB_WIDTH).splitlines()
    kinds = list(_classify_lines(lines))
    starts = [number for number, kind in enumerate(kinds) if kind == "item"]
    margin = min((_measure_indent(lines[number]) for number in starts), default=0)
    starts = [number for number in starts if _measure_indent(lines[number]) <= margin + 1]
    headings = [number for number, kind in enumerate(kinds) if kind == "heading"]
    first = next((line.strip() for line in lines if line.strip()), "")
    title = HEADING.fullmatch(lines[headings[0]]) if headings else None
    return PlanDocument(
        title=shorten_line(title[2] if title else first, MAX_TITLE_CHARS),
        introduction="\n".join(lines[: starts[0]]).strip() if starts else text.strip(),
        items=tuple(_iter_items(lines, starts, headings)),
    )


def _classify_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield heading, item or text for each line; in a fenced block all is text."""
    fence = ""
    for line in lines:
        mark = FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line[mark.end() :].strip() else fence
            yield "text"
        elif mark:
            fence = mark[1]
            yield "text"
        else:
            yield "item" if ITEM.fullmatch(line) else "heading" if HEADING.fullmatch(line) else "text"


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _iter_items(lines: Sequence[str], starts: Sequence[int], headings: Sequence[int]) -> Iterator[ChecklistItem]:
    for start, following in pairwise((*starts, len(lines))):
        found = ITEM.fullmatch(lines[start])
        assert found is not None
        end = min((number for number in headings if start < number < following), default=following)
        below = _take_item_lines(lines[start + 1 : end], _measure_indent(lines[start]))
        above = [number for number in headings[1:] if number < start]  # the first one is the title of the file
        section = HEADING.fullmatch(lines[above[-1]]) if above else None
        details = [f"Section: {section[2]}"] if section else []
        details += [line for line in below if not FILES.fullmatch(line)]
        yield ChecklistItem(
            title=found[3].strip(),
            details="\n".join(details).strip(),
            files=tuple(path for line in below for path in _parse_files(line)),
            is_done=found[2] != " ",
        )


def _take_item_lines(lines: Sequence[str], margin: int) -> list[str]:
    """Take what is indented below an item, and lines that continue its paragraph; text after a blank line is not."""
    taken: list[str] = []
    for line in lines:
        if line.strip() and _measure_indent(line) <= margin and (taken and not taken[-1].strip()):
            break
        taken.append(line)
    return taken


def _parse_files(line: str) -> Iterator[str]:
    found = FILES.fullmatch(line)
    for word in re.split(r"[,\s]+", found[1] if found else ""):
        path = word.strip("`'\"")
        try:
            if path and parse_lock(path):
                yield path
        except BadLock:
            continue  # as if it were not written: the task then has the locks of the others, or those of the repository


def build_plan(document: PlanDocument, name: str, writable: Sequence[str]) -> tuple[Task, ...]:
    """Make a task of each open item, in their order; without `files:` it may write all that agents may write here."""
    introduction = document.introduction[:MAX_INTRODUCTION_CHARS]
    return tuple(
        Task(
            id=f"task-{number:03}",
            title=shorten_line(item.title, MAX_TITLE_CHARS),
            description="\n\n".join(
                part for part in (item.title, item.details[:MAX_DETAIL_CHARS], f"From {name}:", introduction) if part
            ),
            priority=number,
            cohesion_group=name,
            file_locks=item.files or tuple(writable),
        )
        for number, item in enumerate(document.open_items, 1)
    )
