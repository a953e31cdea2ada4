"""Find what is damaged in an agent's own checkout: objects, index and refs that are not as git writes them.

They are read as plain files, no link is followed, and a limit holds on what is read: no git process runs there.
An agent can damage them on purpose: nothing passes by that.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from blueflame.git.command import OBJECT_ID
from blueflame.git.damage import CHUNK_BYTES, ends_with_checksum
from blueflame.lazy_dataclass import dataclass
from blueflame.system.files import list_files_below

MAX_READ_BYTES = 256_000_000  # of files, and of objects when they are not compressed
CHECK_DISK = "see whether the disk has errors (journalctl -k)"


class TooMuchToRead(Exception):
    """What was read so far is as git writes it."""


def find_checkout_damage(checkout: Path, base: str) -> str:
    """Name a damaged file of the checkout's own git folder; "" if all that the limit lets us read is intact."""
    inside = checkout / ".git"
    if any(folder.is_symlink() for folder in (checkout, inside, inside / "objects", inside / "refs")):
        return ""  # the agent's doing
    with suppress(OSError, TooMuchToRead):
        damaged = next(_OwnFiles(inside, len(base) // 2, MAX_READ_BYTES).find_damaged(), None)
        if damaged is not None:
            return f"the checkout {checkout} is damaged: {damaged} is not as git wrote it; {CHECK_DISK}"
    return ""


@dataclass(slots=True)
class _OwnFiles:
    inside: Path
    digest_size: int
    left: int

    def find_damaged(self) -> Iterator[Path]:
        for place in (self.inside / "HEAD", *sorted(list_files_below(self.inside / "refs"))):
            if self._is_empty(place):
                yield place
        for place in (self.inside / "index", *sorted(list_files_below(self.inside / "objects"))):
            if self._is_damaged(place):
                yield place

    def _is_empty(self, place: Path) -> bool:
        return not place.name.endswith(".lock") and place.lstat().st_size == 0

    def _is_damaged(self, place: Path) -> bool:
        name = f"{place.parent.name}{place.name}"
        is_object, is_index = OBJECT_ID.fullmatch(name), place.name == "index"
        if not (is_object or is_index or place.suffix in (".pack", ".idx")) or not place.exists():
            return False
        with _open_plain(place) as file:
            self._count(os.fstat(file.fileno()).st_size)
            if is_object:
                return self._hash_object(file) != name
            return not ends_with_checksum(file, self.digest_size) and not (is_index and self._has_no_checksum(file))

    def _hash_object(self, file: BinaryIO) -> str:
        """The id of what a loose object holds; "" if it is not whole."""
        digest = hashlib.new("sha256" if self.digest_size == 32 else "sha1", usedforsecurity=False)
        inflate, packed = zlib.decompressobj(), file.read()
        try:
            while packed and not inflate.eof:
                content = inflate.decompress(packed, CHUNK_BYTES)
                self._count(len(content))
                digest.update(content)
                packed = inflate.unconsumed_tail
        except zlib.error:
            return ""
        return digest.hexdigest() if inflate.eof else ""

    def _has_no_checksum(self, file: BinaryIO) -> bool:
        """Whether git was set to leave it out (index.skipHash)."""
        size = os.fstat(file.fileno()).st_size
        return size > self.digest_size and os.pread(file.fileno(), size, size - self.digest_size).strip(b"\0") == b""

    def _count(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise TooMuchToRead


def _open_plain(place: Path) -> BinaryIO:
    file = os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{place} is not a plain file")
    return file
