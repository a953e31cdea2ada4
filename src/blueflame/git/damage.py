"""Find objects of the person's repository that git cannot read: damaged by a disk, a power cut or a careless hand."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from blueflame.git.batch import find_objects
from blueflame.git.command import RESTORE_OBJECTS, find_fix, try_git
from blueflame.git.repository import Repository, list_object_folders
from blueflame.system.disk import measure_folder

WITHOUT_INDEXES = ("-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false")
ALLOWED = "--missing=allow-promisor"  # what a partial clone has elsewhere
VERIFIED = ("--objects", "--verify-objects", ALLOWED)
THEIR_REFS = ("--exclude=refs/blueflame/*", "--all")
LISTED = ("--objects", ALLOWED, *THEIR_REFS)
LACKED = re.compile(r"(?:could not|cannot|unable to) read\b.{0,300}?\b([0-9a-f]{40}(?:[0-9a-f]{24})?)\b", re.IGNORECASE)
MAX_LISTED_BYTES = 100 << 20  # every object of it is looked up within a second or two
MAX_WHOLE_BYTES = 1 << 30  # read in some 4 seconds; of larger repositories only the newest commits are looked at
CHECKED_ANCESTORS = 100  # more than agents look at
READ_TIMEOUT = 1800.0  # a very large tree on a slow disk
CHUNK_BYTES = 1 << 20


def find_damage(repo: Repository, shas: Iterable[str]) -> str:
    """Why git cannot read these commits with their files, or a ref, or history, and the fix; "" if it can.

    Every file of the commits is read, and every object that no pack has: git also lists one whose content is damaged.
    A pack is compared with its own checksum, which costs a hundredth of reading its objects. What packed commits need
    and no one has is looked for in all of a small repository, and in the newest commits of a larger one.
    Indexes that git can do without are not used.
    """
    commits, folders = tuple(shas), tuple(list_object_folders(repo.objects))
    size = sum(map(measure_folder, folders))
    is_whole = size <= MAX_WHOLE_BYTES
    unpacked = ((*VERIFIED, "--unpacked", *THEIR_REFS),) if is_whole else ()
    newest = () if is_whole and size <= MAX_LISTED_BYTES else (f"--max-count={CHECKED_ANCESTORS}",)
    for walk in (("--no-walk", *VERIFIED), *unpacked, (*LISTED, *newest)):
        if problem := _walk_history(repo, *walk, *commits):
            return problem
    damaged = next(_find_damaged_packs(folders, repo.base_sha), None) if is_whole else None
    return "" if damaged is None else _describe_damage(repo, f"{damaged} does not end with its checksum")


def find_reported_loss(repo: Repository, printed: str) -> str:
    """Why history is not whole, and the fix, if an agent's git lacked an object that is not there; "" if it is whole.

    Words prove nothing: every object is looked up, which takes a while in a large repository.
    """
    named = sorted({each[1] for each in LACKED.finditer(printed)})
    return _walk_history(repo, *LISTED) if None in find_objects(repo, named) else ""


def _walk_history(repo: Repository, *walk: str) -> str:
    done = try_git(repo.root, *WITHOUT_INDEXES, "rev-list", "--quiet", *walk, "--", timeout=READ_TIMEOUT)
    if done.code or "hash mismatch" in done.err:  # of a file, which is no failure for rev-list
        return _describe_damage(repo, "; ".join(done.err.splitlines()) or f"exit code {done.code}")
    return ""


def _describe_damage(repo: Repository, said: str) -> str:
    return f"the repository {repo.root} is damaged: {said}; {find_fix(said, repo.root) or RESTORE_OBJECTS}"


def _find_damaged_packs(folders: Iterable[str], sha: str) -> Iterator[Path]:
    for place in (place for folder in folders for place in sorted(Path(folder, "pack").glob("pack-*"))):
        if place.suffix in (".pack", ".idx"):
            with suppress(FileNotFoundError), place.open("rb") as file:  # `git gc` removes some meanwhile
                if not ends_with_checksum(file, len(sha) // 2):
                    yield place


def ends_with_checksum(file: BinaryIO, size: int) -> bool:
    """Whether the last `size` bytes are the digest of all before, as git writes packs and indexes."""
    left = os.fstat(file.fileno()).st_size - size
    digest = hashlib.new("sha256" if size == 32 else "sha1", usedforsecurity=False)
    while left > 0 and (chunk := file.read(min(left, CHUNK_BYTES))):
        digest.update(chunk)
        left -= len(chunk)
    return left == 0 and file.read(size) == digest.digest()
