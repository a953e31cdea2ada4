"""Find which files of an agent's checkout differ from its base, from outside while the agent runs.

No git process reads that folder: names, times and contents are read as plain files, links are not followed,
and contents are compared with the blobs of our own repository. Files whose inode has not changed since the checkout
was made are not read at all: an agent cannot set that time.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from blueflame.git.checkouts import get_record_path
from blueflame.git.command import split_nul, try_git
from blueflame.git.repository import Repository
from blueflame.git.trees import list_tree
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError

MAX_ENTRIES = 200_000  # names in one checkout
MAX_REMEMBERED = 500_000  # names
MAX_FILE_BYTES = 2_000_000  # larger files are not read
GONE = UNKNOWN = ""


class CheckoutTooLarge(WorldError):
    """More names than can be read while agents run."""


@dataclass(frozen=True, slots=True)
class LiveChange:
    """A file that differs from the base."""

    base: str  # blob; empty: it is new
    now: str  # blob, or a description of what is there; empty: it is gone


InodeStamp = tuple[int, int, int]


@dataclass(slots=True)
class IgnoreCache:
    """Asks our own repository which new names are ignored; each name once."""

    repo: Repository
    known: dict[str, bool] = field(default_factory=dict)

    def find_ignored(self, names: Iterable[str]) -> frozenset[str]:
        wanted = list(names)
        fresh = [name for name in wanted if name not in self.known]
        if fresh:
            names_in = "".join(f"{name}\0" for name in fresh).encode("utf-8", "surrogateescape")
            done = try_git(self.repo.root, "check-ignore", "-z", "--stdin", "--no-index", stdin=names_in)
            # if git fails (128), new names count as ignored: people stop reading reports of false overlaps
            left_out = set(split_nul(done.out)) if done.code in (0, 1) else set(fresh)
            if len(self.known) > MAX_REMEMBERED:  # an agent may invent names without end
                self.known = {name: self.known[name] for name in wanted if name in self.known}
            self.known |= {name: name in left_out for name in fresh}
        return frozenset(name for name in wanted if self.known[name])


class LiveCheckout:
    """One agent's checkout. A file is read again only if its inode has changed."""

    def __init__(self, repo: Repository, path: Path, base: str, ignored: IgnoreCache) -> None:
        self.path = path
        self._made = get_record_path(path).stat().st_mtime_ns
        self._base = _read_base_blobs(repo, base)
        self._folders = {folder for name in self._base for folder in _list_parents(name)}
        self._ignored = ignored
        self._read: dict[str, tuple[InodeStamp, str]] = {}
        self._hash = hashlib.sha256 if len(base) == 64 else hashlib.sha1

    def find_changes(self) -> dict[str, LiveChange]:
        seen = dict(self._iterate_entries())
        self._read = {name: known for name, known in self._read.items() if name in seen}
        new = [name for name in seen if name not in self._base]
        left_out = self._ignored.find_ignored(new)
        found = {name: LiveChange(blob, GONE) for name, blob in self._base.items() if blob and name not in seen}
        for name, about in seen.items():
            base = self._base.get(name)
            if name in left_out or base == UNKNOWN or (base and about.st_ctime_ns <= self._made):
                continue
            now = self._hash_content(name, about)
            if now != base:
                found[name] = LiveChange(base or "", now)
        return found

    def read_text(self, name: str) -> str | None:
        """Return None if it is gone, not a plain file, or large."""
        data = read_beneath(self.path, name)
        return None if data is None else data.decode("utf-8", "replace")

    def _iterate_entries(self) -> Iterator[tuple[str, os.stat_result]]:
        left = MAX_ENTRIES
        front = [""]
        while front:
            here = list(_list_folder(self.path, front.pop()))
            left -= len(here)
            if left < 0:
                raise CheckoutTooLarge(
                    f"{self.path} has more than {MAX_ENTRIES:,} names: overlaps there are not detected"
                )
            folders = [name for name, about in here if stat.S_ISDIR(about.st_mode)]
            new = [f"{name}/" for name in folders if name not in self._folders]
            left_out = self._ignored.find_ignored(new)
            front += [name for name in folders if f"{name}/" not in left_out and name.rsplit("/", 1)[-1] != ".git"]
            yield from ((name, about) for name, about in here if not stat.S_ISDIR(about.st_mode))

    def _hash_content(self, name: str, about: os.stat_result) -> str:
        stamp = (about.st_ctime_ns, about.st_size, about.st_ino)
        known = self._read.get(name)
        if known is not None and known[0] == stamp:
            return known[1]
        data = read_beneath(self.path, name)
        blob = None if data is None else self._hash(b"blob %d\0%b" % (len(data), data)).hexdigest()
        found = f"size {about.st_size}" if blob is None else blob
        self._read[name] = (stamp, found)
        return found


def _read_base_blobs(repo: Repository, base: str) -> dict[str, str]:
    """Return path -> blob; UNKNOWN for links and submodules, which then never count as changed."""
    entries = list_tree(repo, base).items()
    return {path: sha if mode in ("100644", "100755") else UNKNOWN for path, (mode, sha) in entries}


def _list_parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rsplit("/", 1)[0]
        yield name


def _list_folder(root: Path, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield names and states; entries that the agent removes meanwhile are skipped."""
    with suppress(OSError), os.scandir(root / folder if folder else root) as entries:
        for entry in entries:
            with suppress(OSError):
                yield f"{folder}/{entry.name}" if folder else entry.name, entry.stat(follow_symlinks=False)


def read_beneath(root: Path, name: str) -> bytes | None:
    """Read a plain file of at most MAX_FILE_BYTES below `root`, with no link on the way; else return None."""
    parts = name.split("/")
    handles: list[int] = []
    try:
        handles.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            handles.append(os.open(part, flags, dir_fd=handles[-1]))
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handles.append(os.open(parts[-1], flags, dir_fd=handles[-1]))
        about = os.fstat(handles[-1])
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
            return None
        with os.fdopen(handles.pop(), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        return data if len(data) <= MAX_FILE_BYTES else None
    except OSError:
        return None
    finally:
        for handle in handles:
            os.close(handle)
