"""The audit log of one attempt: one line per decision, outside the agent's reach.

Each line holds the beginning of the hash of the line before it, so that changed and removed lines show.
"""

# ruff: noqa: PTH102, PTH116, PTH120 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import json
import os
import time

from blueflame.model.audit import hash_audit_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 64 * 1024 * 1024  # an agent that asks forever must not fill the disk: from then on it is refused
MAX_TARGET, MAX_DETAILS = 500, 1000  # characters
TAIL_BYTES = 64 * 1024  # longer than any line


class UnwritableLog(Exception):
    """The decision could not be recorded, so nothing may be allowed."""


class UnwritableDisk(UnwritableLog):
    """The disk refused it: the agent did nothing wrong."""


class AuditLog:
    __slots__ = ("_handle", "_path", "_prev", "_size", "lines")

    def __init__(self, path: str) -> None:
        """Open it, or continue an existing one. Raises UnwritableLog."""
        self._path = path
        self.lines = 0
        try:
            _make_folder(os.path.dirname(path))
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._handle = os.open(path, flags, 0o600)
            self._size = os.fstat(self._handle).st_size
            self._prev = _read_last_link(self._handle, self._size)
        except OSError as e:
            raise UnwritableLog(f"the audit log {path} cannot be opened: {e.strerror}") from e

    def append(self, line: Mapping[str, object]) -> None:
        """Append a line in one write, whole or not at all. ASCII only, so that the file is safe to print."""
        data = json.dumps({"timestamp": _format_now(), **line, "prev": self._prev}).replace("\x7f", "\\u007f").encode()
        if self._size + len(data) >= MAX_BYTES:
            raise UnwritableLog(f"the audit log {self._path} is full ({MAX_BYTES >> 20} MB): too many calls")
        try:
            written = os.write(self._handle, data + b"\n")
        except OSError as e:
            raise UnwritableDisk(f"the audit log {self._path} cannot be written: {e.strerror}") from e
        self._size += written
        if written != len(data) + 1:
            raise UnwritableDisk(f"the audit log {self._path} was written only in part: is the disk full?")
        self._prev = hash_audit_line(data)
        self.lines += 1

    @property
    def last_link(self) -> str:
        """The link of the newest line: a reader finds it unless a line was removed."""
        return self._prev

    def find_tampering(self) -> str:
        """Return how the file differs from what was written, or ""."""
        try:
            mine, there = os.fstat(self._handle), os.stat(self._path, follow_symlinks=False)
        except OSError as e:
            return f"the audit log {self._path} is gone: {e.strerror}"
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
            return f"the audit log {self._path} was replaced by another file"
        if mine.st_size != self._size:
            return f"the audit log {self._path} has {mine.st_size} bytes, but {self._size} were written"
        return ""

    def close(self) -> None:
        os.close(self._handle)


def _make_folder(path: str) -> None:
    """Not its parents: a repository that was renamed meanwhile must not get a folder at its old place."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return


def _read_last_link(handle: int, size: int) -> str:
    """Return the link of the last line of an existing log, which continues the chain; "" for a new one."""
    data = os.pread(handle, TAIL_BYTES, max(0, size - TAIL_BYTES))
    return hash_audit_line(data.rstrip(b"\n").rpartition(b"\n")[2]) if data else ""


def _format_now() -> str:
    now = time.time_ns() // 1_000_000
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{now % 1000:03d}Z", time.gmtime(now // 1000))
