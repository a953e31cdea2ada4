"""Read the lines of large and growing files in blocks: memory holds one line and one block.

Several agents may end at once, each with hundreds of megabytes of output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from blueflame.lazy_dataclass import dataclass
from blueflame.system.files import explain_file_errors, parse_json_object

BLOCK_BYTES = 256 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SkippedBytes:
    """Bytes that were skipped."""

    size: int
    in_one_line: bool = False


def read_size(path: Path) -> int:
    with explain_file_errors("read the agent's output", path), suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def read_bytes_at(path: Path, offset: int, max_bytes: int) -> bytes:
    with explain_file_errors("read the agent's output", path), suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(offset)
        return file.read(max_bytes)
    return b""


def read_spool_lines(path: Path, max_bytes: int) -> Iterator[str | SkippedBytes]:
    """Read all lines; of a file above the limit its beginning and end, with the size of the gap."""
    size = read_size(path)
    if not size:
        return
    with explain_file_errors("read the agent's output", path), path.open("rb") as file:
        if size <= max_bytes:
            yield from _read_lines_between(file, 0, size)
            return
        half = max_bytes // 2
        head, tail = _find_last_line_start(file, half), _find_next_line_start(file, size - half, size)
        yield from _read_lines_between(file, 0, head)
        yield SkippedBytes(tail - head)
        yield from _read_lines_between(file, tail, size)


def split_lines(data: bytes) -> Iterator[str]:
    """Split into non-empty lines; invalid UTF-8 is replaced."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start:end]
        if line.strip():
            yield line.decode("utf-8", "replace")
        start = end + 1


def _read_lines_between(file: BinaryIO, start: int, end: int) -> Iterator[str | SkippedBytes]:
    file.seek(start)
    while start < end and (line := file.readline(min(MAX_LINE_BYTES, end - start))):
        start += len(line)
        if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
            yield from split_lines(line)
            continue
        size = len(line)
        while start < end and not line.endswith(b"\n") and (line := file.readline(min(BLOCK_BYTES, end - start))):
            start, size = start + len(line), size + len(line)
        yield SkippedBytes(size, in_one_line=True)


def _find_last_line_start(file: BinaryIO, end: int) -> int:
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _find_next_line_start(file: BinaryIO, start: int, end: int) -> int:
    file.seek(start)
    while start < end and (block := file.read(min(BLOCK_BYTES, end - start))):
        found = block.find(b"\n")
        if found >= 0:
            return start + found + 1
        start += len(block)
    return end


STEP_BYTES = 64 * 1024
MAX_TAIL_LINE_BYTES = 1024 * 1024  # our files have short lines; a longer one is skipped


class FileTail:
    """Follow a file that another process writes: each line once, complete, in order. One for each reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._skipping = False  # the end of a line that was too long

    def read_lines(self, *, most: int = STEP_BYTES) -> Iterator[bytes]:
        """Read about `most` new bytes; the rest comes with the next call."""
        goal = self.offset + most
        while self.offset < goal:
            data = read_bytes_at(self.path, self.offset, STEP_BYTES)
            if b"\n" not in data and len(data) == STEP_BYTES:
                data = read_bytes_at(self.path, self.offset, MAX_TAIL_LINE_BYTES)
            end = data.rfind(b"\n") + 1
            if not end and len(data) < MAX_TAIL_LINE_BYTES:
                return
            self.offset += end or len(data)
            fresh = data[:end].split(b"\n")[:-1]
            if self._skipping:
                fresh = fresh[1:]
            self._skipping = not end
            yield from fresh

    def read_objects(self, *, most: int = STEP_BYTES) -> Iterator[Mapping[str, Any]]:
        """Read the new lines that are JSON objects and skip others: for views, not for decisions."""
        for line in self.read_lines(most=most):
            if (found := parse_json_object(line)) is not None:
                yield found
