"""The lines of a file that another process writes on: each is given once, whole, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blueflame.system.lines import read_bytes_at

STEP_BYTES = 64 * 1024
MAX_TAIL_LINE_BYTES = 1024 * 1024  # what we follow has short lines; a longer one is somebody else's and left out


class FileTail:
    """One for each reader of each file: where it stopped is where it goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._skipping = False  # the end of a line that was too long

    def read_lines(self, *, most: int = STEP_BYTES) -> Iterator[bytes]:
        """What is new, about `most` bytes of it at a time; the rest comes with the next call."""
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
        """The lines that are JSON objects; others are passed over: this is for looking on, not for judging."""
        for line in self.read_lines(most=most):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found
