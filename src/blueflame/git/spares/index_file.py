"""Read what an index of git records of the files of a checkout: enough to know which were touched since."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from blueflame.model.errors import GitFailed

HEADER = struct.Struct(">4s2I")  # signature, version, number of entries
ENTRY = struct.Struct(
    ">10I"
)  # changed, modified (seconds and nanoseconds each), device, inode, mode, user, group, size
FLAGS = struct.Struct(">H")
READABLE_VERSIONS = (2, 3)  # 4 has shortened names
EXTENDED = 0x4000
LOW_WORD = 0xFFFFFFFF
SECOND = 10**9


class FileStamp(NamedTuple):
    """What no program can restore after it has changed a file: the kernel alone sets `changed`."""

    changed: int  # nanoseconds
    modified: int
    inode: int
    size: int


class IndexEntry(NamedTuple):
    path: bytes
    blob: bytes
    stamp: FileStamp


def build_stamp(about: os.stat_result) -> FileStamp:
    """Build the stamp of a file as an index has it, which keeps 32 bits of inode and size."""
    return FileStamp(about.st_ctime_ns, about.st_mtime_ns, about.st_ino & LOW_WORD, about.st_size & LOW_WORD)


def count_entries(index: Path) -> int:
    with index.open("rb") as file:
        head = file.read(HEADER.size)
    return int(HEADER.unpack(head)[2]) if len(head) == HEADER.size else 0


def read_entries(index: Path, *, is_sha256: bool = False) -> Iterator[IndexEntry]:
    """Yield the entries of an index that we wrote; GitFailed for a format that we do not write."""
    try:
        yield from _parse_entries(index.read_bytes(), 32 if is_sha256 else 20)
    except (struct.error, ValueError) as error:
        raise GitFailed(f"{index} cannot be read as an index of git: {error}") from error


def _parse_entries(data: bytes, id_bytes: int) -> Iterator[IndexEntry]:
    signature, version, count = HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in READABLE_VERSIONS:
        raise ValueError("it is not one of version 2 or 3")
    at = HEADER.size
    for _ in range(count):
        changed, changed_ns, modified, modified_ns, _, inode, _, _, _, size = ENTRY.unpack_from(data, at)
        flags_at = at + ENTRY.size + id_bytes
        start = flags_at + (4 if FLAGS.unpack_from(data, flags_at)[0] & EXTENDED else 2)
        end = data.index(b"\0", start)
        stamp = FileStamp(changed * SECOND + changed_ns, modified * SECOND + modified_ns, inode, size)
        yield IndexEntry(data[start:end], data[at + ENTRY.size : flags_at], stamp)
        at += (end - at + 8) // 8 * 8  # padded with one to eight zeros
