"""A knowledge file, block by block: what a person wrote stays as it is, byte for byte, when an entry comes or goes.

Front matter, a title, `## Essential` (a person's own, never touched), then entries: bullets or paragraphs, each with a
comment that has its id. An entry without one is new. The last line says that the file was read to its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from blueflame.knowledge.entry import (
    FACTS,
    INDENT,
    BadEntry,
    build_blank,
    canonicalize_text,
    find_id,
    format_entry,
    format_facts,
    parse_facts,
)
from blueflame.lazy_dataclass import dataclass
from blueflame.model.memory import KnowledgeFile, Lesson

MAX_TOKENS = 20_000  # that the front matter of a file may allow
FENCE = re.compile(r"```+|~~~+")  # inside a bullet the indentation says where it ends
HEADING = re.compile(r"(#{1,6}) +(.*?) *#*")
BULLET = re.compile(r"[-*+] +(?=\S)")
RULE = re.compile(r"([-*_])\1{2,}|[-*+]")  # a line across the page, or a bullet without words
END = re.compile(r"<!-- end of .* -->")
GUIDE = (
    "<!-- Yours to edit: change, add or delete entries (a bullet or a paragraph each). What you write is kept word for",
    "word and never overwritten; what you delete does not come back. A section `## Essential` is yours alone.",
    "Agents get these words as data, never as instructions. More: blueflame help edit-knowledge -->",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Lines that stay together. `lesson` is set for an entry, `key` also for one that cannot be read."""

    lines: tuple[str, ...]
    line: int = 0  # number of the first
    lesson: Lesson | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class PageProblem:
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgePage:
    file: KnowledgeFile
    blocks: tuple[Block, ...]
    essential: str = ""  # a person's section
    complete: bool = True  # the last line is there
    problems: tuple[PageProblem, ...] = ()  # entries that cannot be read; they stay as they are
    newline: str = "\n"

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        return tuple(block.lesson for block in self.blocks if block.lesson is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePage:
    """A file that stays as it is until a person has fixed it."""

    problem: PageProblem


def build_page(file: KnowledgeFile) -> KnowledgePage:
    """A file without entries."""
    title = file.name.rpartition("/")[2].replace("-", " ").capitalize()
    head = ("---", f"knowledge: {file.name}", f"tokens: {file.tokens}", "---", "", f"# {title}", "", *GUIDE, "")
    return KnowledgePage(file=file, blocks=(Block(lines=head), _build_end(file.name)))


def _build_end(name: str) -> Block:
    return Block(lines=(f"<!-- end of {name} -->", ""))


def render_page(page: KnowledgePage) -> str:
    return page.newline.join(line for block in page.blocks for line in block.lines)


# --- reading


def parse_page(text: str, file: KnowledgeFile) -> KnowledgePage | UnreadablePage:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    try:
        reader = _Reader(lines=lines, file=file)
        reader.read_front_matter()
        reader.read_blocks()
    except _Unreadable as error:
        return UnreadablePage(problem=error.problem)
    return KnowledgePage(
        file=reader.file,
        blocks=tuple(reader.blocks),
        essential=canonicalize_text("\n".join(reader.essential)),
        complete=reader.complete,
        problems=tuple(reader.problems),
        newline=newline,
    )


class _Unreadable(Exception):
    def __init__(self, line: int, text: str) -> None:
        self.problem = PageProblem(line, text)


@dataclass(slots=True, kw_only=True)
class _Reader:
    lines: Sequence[str]
    file: KnowledgeFile
    at: int = 0
    blocks: list[Block] = field(default_factory=list)
    essential: list[str] = field(default_factory=list)
    problems: list[PageProblem] = field(default_factory=list)
    complete: bool = False

    def read_front_matter(self) -> None:
        if self.lines[0].rstrip() != "---":
            return
        end = next((n for n, line in enumerate(self.lines) if n and line.rstrip() == "---"), 0)
        if not end:
            raise _Unreadable(1, "the front matter has no end: close it with a line ---")
        for number, line in enumerate(self.lines[1:end], start=2):
            self._read_setting(number, line)
        self._take(end + 1)

    def _read_setting(self, number: int, line: str) -> None:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip() or line.lstrip().startswith("#"):
            return
        if not colon:
            raise _Unreadable(number, f"{line.strip()[:60]!r} in the front matter is not `name: value`")
        if name == "knowledge" and value != self.file.name:
            raise _Unreadable(number, f"knowledge: is {value!r}, the file is that of {self.file.name!r}")
        if name == "tokens":
            if not re.fullmatch("[0-9]{1,6}", value) or int(value) > MAX_TOKENS:
                raise _Unreadable(number, f"tokens: is {value!r}: write a number up to {MAX_TOKENS}")
            self.file = replace(self.file, tokens=int(value))

    def read_blocks(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            heading = HEADING.fullmatch(line.rstrip())
            if heading is not None:
                self._read_heading(heading)
            elif line.startswith("<!--"):
                self._read_comment()
            elif not line.strip() or RULE.fullmatch(line.rstrip()):
                self._take(self.at + 1)
            else:
                self._read_entry()

    def _read_heading(self, heading: re.Match[str]) -> None:
        end = self.at + 1
        if heading[2].casefold().startswith("essential"):
            while end < len(self.lines) and not self._ends_section(self.lines[end], len(heading[1])):
                end = self._skip_fence(end)
            self.essential += self.lines[self.at + 1 : end]
        self._take(end)

    def _ends_section(self, line: str, level: int) -> bool:
        heading = HEADING.fullmatch(line.rstrip())
        return END.fullmatch(line.rstrip()) is not None or (heading is not None and len(heading[1]) <= level)

    def _read_comment(self) -> None:
        line = self.lines[self.at].rstrip()
        if FACTS.fullmatch(line):
            self.problems.append(PageProblem(self.at + 1, "an id without words above it"))
            self._take(self.at + 1, key=find_id(line))
            return
        self.complete = self.complete or END.fullmatch(line) is not None
        end = next((n for n in range(self.at, len(self.lines)) if "-->" in self.lines[n]), None)
        if end is None:
            raise _Unreadable(self.at + 1, "the comment has no end: close it with -->")
        self._take(end + 1)

    def _read_entry(self) -> None:
        begin, bullet = self.at, BULLET.match(self.lines[self.at])
        end = self._find_entry_end(begin, in_list=bullet is not None)
        found = [n for n in range(begin, end) if FACTS.fullmatch(self.lines[n])]
        words = canonicalize_text("\n".join(self._list_words(begin, end, bullet)))
        after = end
        while after < len(self.lines) - 1 and not self.lines[after].strip():
            after += 1
        lesson, key = None, find_id(self.lines[found[0]]) if found else ""
        try:
            if len(found) > 1:
                raise BadEntry("two ids in one entry: put a line that begins with `- ` between them")
            blank = replace(build_blank(self.file.name), text=words)
            lesson = parse_facts(self.lines[found[0]], words, self.file.name) if found else blank
        except BadEntry as error:
            self.problems.append(PageProblem(found[0] + 1, str(error)))
        self._take(after, lesson=lesson, key=key)

    def _find_entry_end(self, begin: int, *, in_list: bool) -> int:
        """A bullet has its indented lines, also after blank ones; both have what follows without a blank line."""
        end = self._skip_fence(begin)
        while end < len(self.lines):
            line = self.lines[end]
            if FACTS.fullmatch(line) and (in_list or not line.startswith(" ")):
                end += 1
            elif not line.strip():
                after = next((n for n in range(end, len(self.lines)) if self.lines[n].strip()), len(self.lines))
                if not in_list or after == len(self.lines) or not self.lines[after].startswith((" ", "\t")):
                    break
                end = after
            elif line.startswith((" ", "\t")) or not self._begins_block(line):
                end = self._skip_fence(end)
            else:
                break
        return end

    def _begins_block(self, line: str) -> bool:
        starts = HEADING.fullmatch(line.rstrip()) or BULLET.match(line) or RULE.fullmatch(line.rstrip())
        return line.startswith("<!--") or starts is not None

    def _skip_fence(self, at: int) -> int:
        """Return the line after this one, or after the code block that it begins."""
        fence = FENCE.match(self.lines[at])
        if fence is None:
            return at + 1
        end = next((n for n in range(at + 1, len(self.lines)) if self.lines[n].strip().startswith(fence[0])), None)
        if end is None:
            raise _Unreadable(at + 1, f"the code block has no end: close it with {fence[0]}")
        return end + 1

    def _list_words(self, begin: int, end: int, bullet: re.Match[str] | None) -> Iterator[str]:
        for number in range(begin, end):
            line = self.lines[number]
            if FACTS.fullmatch(line):
                continue
            if bullet is not None:
                line = line[bullet.end() :] if number == begin else _dedent(line)
            yield line

    def _take(self, end: int, *, lesson: Lesson | None = None, key: str = "") -> None:
        self.blocks.append(Block(lines=tuple(self.lines[self.at : end]), line=self.at + 1, lesson=lesson, key=key))
        self.at = end


def _dedent(line: str) -> str:
    if line.startswith("\t"):
        return line[1:]
    return line.removeprefix(INDENT) if line.startswith(INDENT) else line.lstrip()


# --- writing


def update_page(
    page: KnowledgePage, lessons: Sequence[Lesson], contradicts: Mapping[str, Sequence[str]] | None = None
) -> KnowledgePage:
    """Make the entries those of `lessons`. Entries that stay keep their place and their lines; new ones come last."""
    marks = contradicts or {}
    wanted = {lesson.key: lesson for lesson in lessons}
    kept = [
        _update_block(block, wanted[block.key], marks.get(block.key, ())) if block.key in wanted else block
        for block in page.blocks
        if block.lesson is None or not block.key or block.key in wanted
    ]
    here = {block.key for block in kept}
    new = [
        Block(lines=format_entry(lesson, marks.get(lesson.key, ())), lesson=lesson, key=lesson.key)
        for lesson in lessons
        if lesson.key not in here
    ]
    moved = _find_moved(kept, marks)
    stay = [block for block in kept if block.key not in moved]
    blocks = _arrange(stay, [*(each for each in kept if each.key in moved), *new], page.file.name, marks)
    return replace(page, blocks=tuple(blocks), complete=True)


def _update_block(block: Block, lesson: Lesson, contradicts: Sequence[str]) -> Block:
    """Only the lines that say something else are changed."""
    if block.lesson is None:
        return block
    if block.lesson.text != canonicalize_text(lesson.text):
        return replace(block, lines=format_entry(lesson, contradicts), lesson=lesson)
    facts, lines = format_facts(lesson, contradicts), list(block.lines)
    at = next((n for n, line in enumerate(lines) if FACTS.fullmatch(line)), None)
    if at is None:
        at = max(n for n, line in enumerate(lines) if line.strip()) + 1
        lines.insert(at, (INDENT if BULLET.match(lines[0]) else "") + facts)
    elif lines[at].strip() != facts:
        lines[at] = lines[at][: len(lines[at]) - len(lines[at].lstrip())] + facts
    return replace(block, lines=tuple(lines), lesson=lesson)


def _find_moved(kept: Sequence[Block], contradicts: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The entries that go beside the one that they contradict; what a person confirmed stays where it is."""
    moved: set[str] = set()
    for at, block in enumerate(kept):
        partners = [key for key in contradicts.get(block.key, ()) if key not in moved]
        if block.lesson is None or block.lesson.confirmed or not partners:
            continue
        earlier = {each.key for each in kept[:at]}
        confirmed = {each.key for each in kept[at + 1 :] if each.lesson is not None and each.lesson.confirmed}
        if kept[at - 1].key not in partners and any(key in earlier or key in confirmed for key in partners):
            moved.add(block.key)
    return frozenset(moved)


def _arrange(
    stay: Sequence[Block], new: Sequence[Block], name: str, contradicts: Mapping[str, Sequence[str]]
) -> Iterator[Block]:
    """New entries come before the last line of the file, one that contradicts another directly after it."""
    beside: dict[str, list[Block]] = {"": []}
    here = {block.key for block in stay if block.key}
    for block in new:
        partner = next((key for key in contradicts.get(block.key, ()) if key in here), "")
        beside.setdefault(partner, []).append(block)
    last = next((n for n, block in enumerate(stay) if _is_end(block)), len(stay))
    for block in stay[:last]:
        yield _separate(block) if block.key and beside.get(block.key) else block
        yield from map(_separate, beside.pop(block.key, ()) if block.key else ())
    yield from map(_separate, beside.pop(""))
    yield from stay[last:] or (_build_end(name),)


def _is_end(block: Block) -> bool:
    return block.lesson is None and any(END.fullmatch(line.rstrip()) for line in block.lines)


def _separate(block: Block) -> Block:
    return replace(block, lines=(*block.lines, "")) if block.lines[-1].strip() else block
