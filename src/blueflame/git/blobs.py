"""Read contents of files from the object store, many at once: no attribute, filter or work tree interferes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from blueflame.git.batch import find_objects, read_objects
from blueflame.git.command import run_git, split_nul
from blueflame.git.repository import Repository
from blueflame.model.errors import GitFailed

MAX_FILE_BYTES = 16_000_000  # larger files are left out
MAX_BATCH_BYTES = 16_000_000  # what is held in memory at once, unless one file is larger
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
SAMPLE_BYTES = 8000  # enough to detect the encoding of a text
ZERO_WIDTH = re.compile("[\\xad\\u200b-\\u200f\\u2060-\\u2064\\ufeff]")

_Item = TypeVar("_Item")


def decode_text(data: bytes) -> str:
    """Decode as UTF-8 or UTF-16. Undecodable bytes are kept: a key among them is still found."""
    encoding = _detect_utf16(data[:SAMPLE_BYTES])
    return data.decode(encoding, "replace") if encoding else _decode_bytes(data)


def decode_in_all_ways(data: bytes) -> Iterator[str]:
    """Yield the text, and what else it can be read as, so that nothing hides a word from a search.

    What looks like UTF-16 at its beginning may be something else, and UTF-16 may begin later: its zeros are left out.
    """
    yield from list_ways_to_read(decode_text(data))
    if _detect_utf16(data[:SAMPLE_BYTES]):
        yield _decode_bytes(data)
    if b"\0" in data:
        yield _decode_bytes(data.replace(b"\0", b""))


def list_ways_to_read(text: str) -> tuple[str, ...]:
    """Return the text, and without characters of no width if it has some."""
    plain = text if text.isascii() else ZERO_WIDTH.sub("", text)
    return (text,) if plain == text else (text, plain)


def _decode_bytes(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def is_binary(data: bytes) -> bool:
    """Whether a file is not text, by all of its content: neither attributes nor a long text before the rest decide."""
    encoding = _detect_utf16(data[:SAMPLE_BYTES])
    try:
        return "\0" in data.decode(encoding) if encoding else b"\0" in data
    except UnicodeDecodeError:
        return True


def _detect_utf16(head: bytes) -> str:
    """Return the encoding of UTF-16 text: it has a mark, or every other byte of Latin letters is zero."""
    if head[:2] in UTF16_MARKS:
        return "utf-16"
    even, odd = head[::2], head[1::2]
    for encoding, zeros, letters in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if len(zeros) >= 8 and zeros.count(0) > 0.9 * len(zeros) and letters.count(0) < 0.1 * len(letters):
            return encoding
    return ""


def read_blob_sizes(repo: Repository, shas: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for sha, found in zip(shas, find_objects(repo, shas), strict=True):
        if found is None or found.kind != "blob":
            kind = found.kind if found else "missing"
            raise GitFailed(f"object {sha} in {repo.root} is not the content of a file: git reports {kind!r}")
        sizes[sha] = found.size
    return sizes


def split_batches(
    items: Iterable[_Item], measure: Callable[[_Item], int], most: int = MAX_BATCH_BYTES
) -> Iterator[list[_Item]]:
    """Yield the items in lists whose contents can be held in memory at once."""
    batch: list[_Item] = []
    size = 0
    for item in items:
        if batch and size >= most:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += measure(item)
    if batch:
        yield batch


def read_files_at(repo: Repository, sha: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Return those of the paths that are files in the commit, in the given order; large files are left out."""
    if not paths:
        return {}
    out = run_git(repo.root, "--literal-pathspecs", "ls-tree", "-z", "-r", "--full-tree", sha, "--", *paths)
    listed = [entry.partition("\t") for entry in split_nul(out)]
    found = {path: head.split(" ")[2] for head, _, path in listed if " blob " in head}
    sizes = {
        blob: size
        for blob, size in read_blob_sizes(repo, sorted(set(found.values()))).items()
        if size <= MAX_FILE_BYTES
    }
    contents = read_objects(repo, sizes)
    return {path: contents[found[path]] for path in paths if found.get(path) in contents}
