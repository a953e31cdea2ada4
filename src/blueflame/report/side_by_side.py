"""A diff of git, parsed into two columns: before and after. Its size is bounded, and hidden lines are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from blueflame.lazy_dataclass import dataclass

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
QUOTED = re.compile(r"\\([0-7]{3}|.)")
ESCAPES = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
MAX_LINE = 400


class DiffLine(NamedTuple):
    """A line of one side; `changed` is the part that differs from the other side."""

    number: int
    before: str
    changed: str = ""
    after: str = ""


class LinePair(NamedTuple):
    kind: str  # same | changed | added | deleted | hunk
    left: DiffLine | None
    right: DiffLine | None
    words: str = ""  # of a hunk: where it is


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    path: str
    was: str = ""  # its old name, if it had another
    notes: tuple[str, ...] = ()  # new file, deleted, mode, binary
    pairs: tuple[LinePair, ...] = ()
    hidden: int = 0  # lines that are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    files: tuple[FileDiff, ...] = ()
    hidden_files: int = 0
    cut: bool = False  # the diff was longer than what was read
    missing: str = ""  # why there is nothing to show

    @property
    def shown(self) -> int:
        return sum(len(file.pairs) for file in self.files)


def parse_diff(text: str, *, most_lines: int, most_per_file: int, cut: bool = False) -> SideBySide:
    files: list[FileDiff] = []
    hidden, left = 0, most_lines
    for block in _split_files(text):
        if left <= 0:
            hidden += 1
            continue
        file = _parse_file(block, min(most_per_file, left))
        left -= len(file.pairs)
        files.append(file)
    return SideBySide(files=tuple(files), hidden_files=hidden, cut=cut)


def _split_files(text: str) -> Iterator[list[str]]:
    """Yield the lines of each file. Hunks state their length, so a file's content is never taken for a heading."""
    block: list[str] = []
    left = right = 0
    for line in text.removesuffix("\n").split("\n"):
        if left > 0 or right > 0:
            left -= line[:1] in (" ", "-", "")
            right -= line[:1] in (" ", "+", "")
        elif line.startswith("diff --git ") and block:
            yield block
            block = []
        elif found := HUNK.match(line):
            left, right = int(found[2] or 1), int(found[4] or 1)
        block.append(line)
    if block and block[0].startswith("diff --git "):
        yield block


def _parse_file(block: Sequence[str], most: int) -> FileDiff:
    start = next((n for n, line in enumerate(block) if line.startswith("@@ ")), len(block))
    path, was, notes = _parse_heading(block[:start])
    pairs = list(_pair_lines(block[start:]))
    return FileDiff(
        path=path, was=was if was != path else "", notes=notes, pairs=tuple(pairs[:most]), hidden=len(pairs[most:])
    )


def _parse_heading(lines: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    path = was = ""
    notes = []
    for line in lines[1:]:
        if line.startswith("+++ "):
            path = _parse_name(line[4:], "b/") or path
        elif line.startswith("--- "):
            was = _parse_name(line[4:], "a/") or was
        elif line.startswith("rename from "):
            was = _unquote(line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            path = _unquote(line.removeprefix("rename to "))
        elif line.startswith(("new file", "deleted file", "old mode", "new mode", "Binary files")):
            notes.append("binary" if line.startswith("Binary") else line)
    path = path or was or _parse_git_line(lines[0])
    return path, was or path, tuple(notes)


def _parse_git_line(line: str) -> str:
    """Parse `diff --git a/x b/x`: both halves name the same file when no other line names it."""
    rest = line.removeprefix("diff --git ")
    if rest.startswith('"'):
        return _parse_name(rest[: len(rest) // 2], "a/") or rest
    return rest[len(rest) // 2 + 1 :].removeprefix("b/")


def _parse_name(text: str, prefix: str) -> str:
    name = _unquote(text.partition("\t")[0])
    return "" if name == "/dev/null" else name.removeprefix(prefix)


def _unquote(text: str) -> str:
    """Undo git's C quoting of names with quotes, backslashes or control characters."""
    if not (len(text) > 1 and text.startswith('"') and text.endswith('"')):
        return text
    parts = QUOTED.split(text[1:-1])  # text and escapes in turn
    raw = b"".join(_decode_escape(part) if n % 2 else part.encode("utf-8", "replace") for n, part in enumerate(parts))
    return raw.decode("utf-8", "replace")


def _decode_escape(code: str) -> bytes:
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else ESCAPES.get(code, code).encode("utf-8", "replace")


def _pair_lines(lines: Sequence[str]) -> Iterator[LinePair]:
    old = new = 0
    deleted: list[DiffLine] = []
    added: list[DiffLine] = []
    for line in lines:
        mark, text = line[:1], line[1:]
        if mark == "-":
            if added:
                yield from _match_lines(deleted, added)
                deleted, added = [], []
            deleted.append(_build_line(old, text))
            old += 1
        elif mark == "+":
            added.append(_build_line(new, text))
            new += 1
        else:
            yield from _match_lines(deleted, added)
            deleted, added = [], []
            if found := HUNK.match(line):
                old, new = int(found[1]), int(found[3])
                yield LinePair("hunk", None, None, f"line {new}{' ·' if found[5].strip() else ''} {found[5].strip()}")
            elif mark != "\\":
                yield LinePair("same", _build_line(old, text), _build_line(new, text))
                old, new = old + 1, new + 1
    yield from _match_lines(deleted, added)


def _build_line(number: int, text: str) -> DiffLine:
    over = len(text) - MAX_LINE
    return DiffLine(number, text if over <= 0 else f"{text[:MAX_LINE]} … [{over} more characters]")


def _match_lines(deleted: Sequence[DiffLine], added: Sequence[DiffLine]) -> Iterator[LinePair]:
    for left, right in zip(deleted, added, strict=False):
        yield LinePair("changed", *_mark_difference(left, right))
    both = min(len(deleted), len(added))
    for left in deleted[both:]:
        yield LinePair("deleted", left, None)
    for right in added[both:]:
        yield LinePair("added", None, right)


def _mark_difference(left: DiffLine, right: DiffLine) -> tuple[DiffLine, DiffLine]:
    """Mark the part between the common start and end; lines with little in common are marked as a whole."""
    one, other = left.before, right.before
    most = min(len(one), len(other))
    start = next((n for n in range(most) if one[n] != other[n]), most)
    end = next((n for n in range(most - start) if one[-1 - n] != other[-1 - n]), most - start)
    if (start + end) * 3 < most:
        return left, right
    return _split_line(left, start, end), _split_line(right, start, end)


def _split_line(line: DiffLine, start: int, end: int) -> DiffLine:
    text, stop = line.before, len(line.before) - end
    return DiffLine(line.number, text[:start], text[start:stop], text[stop:])
