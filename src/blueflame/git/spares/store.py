"""Keep the files of a large checkout for the next one, which then writes only what differs.

An agent or a check ran there, so nothing of it is trusted. A file stays only if its inode is as git wrote it, by the
index that git wrote then and that is kept out of their reach: the kernel sets the time of an inode's last change, and
no program can set it back. All else goes, the whole git folder too, and a checkout with a folder of other permissions
is not kept at all.

A spare is a folder of files and, beside it, its index; the index is moved last when it is kept and first when it is
taken, so that a folder without one belongs to a crash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from secrets import token_hex

from blueflame.git.command import read_git_version, try_git
from blueflame.git.spares.index_file import FileStamp, build_stamp, read_entries
from blueflame.model.errors import GitFailed

SPARES = ".spares"
INDEX_SUFFIX = ".index"
ATTRIBUTES = b".gitattributes"
MIN_FILES = 200  # fewer are written about as fast as they are compared
# what decides how git writes a blob as a file, besides attributes
CONVERSION = r"^(core\.(autocrlf|eol|attributesfile|symlinks|filemode|ignorecase|precomposeunicode)|filter\..*)$"


def find_spares_folder(root: Path, worktrees: Path) -> Path:
    """Find the folder of the spares that git would write the same way today."""
    return worktrees / SPARES / _find_conversion(root)


@lru_cache(maxsize=16)
def _find_conversion(root: Path) -> str:
    settings = try_git(root, "config", "-z", "--get-regexp", CONVERSION).out
    named = try_git(root, "config", "--type=path", "--get", "core.attributesFile").out.strip()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME") or "/") / ".config")
    attributes = _read_if_there(Path(named) if named else config / "git" / "attributes")
    parts = (repr(read_git_version()).encode(), settings.encode("utf-8", "surrogateescape"), attributes)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _read_if_there(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def list_spares(folder: Path) -> list[Path]:
    """List the indexes of the spares, the newest first."""
    found = ((_find_time(path), path) for path in folder.glob(f"*{INDEX_SUFFIX}"))
    return [path for _, path in sorted(found, reverse=True)]


def _find_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # it was just taken
        return 0


def take_spare(folder: Path, path: Path, index: Path) -> bool:
    """Move the files of a spare to `path` and its index to `index`; False when no spare is left."""
    for found in list_spares(folder):
        try:
            found.rename(index)
            found.with_suffix("").rename(path)
            return True
        except OSError:  # another attempt took it
            continue
    index.unlink(missing_ok=True)
    return False


def put_spare(folder: Path, path: Path, index: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / token_hex(8)
    path.rename(kept)
    index.rename(_find_pair(kept))


def list_remains(worktrees: Path, current: Path) -> list[Path]:
    """List what no checkout can use: spares that git would write differently today, and what a crash left."""
    others = (path for path in (worktrees / SPARES).glob("*") if path != current)
    return [*others, *(path for path in current.glob("*") if not _find_pair(path).exists())]


def _find_pair(path: Path) -> Path:
    return path.with_suffix("") if path.suffix == INDEX_SUFFIX else path.with_name(f"{path.name}{INDEX_SUFFIX}")


def have_same_attributes(one: Path, other: Path, *, is_sha256: bool) -> bool:
    """Whether both have the same attributes: these decide how git writes files, also those that do not differ."""
    return _read_attributes(one, is_sha256) == _read_attributes(other, is_sha256)


def _read_attributes(index: Path, is_sha256: bool) -> dict[bytes, bytes]:
    if ATTRIBUTES + b"\0" not in index.read_bytes():
        return {}
    entries = read_entries(index, is_sha256=is_sha256)
    return {entry.path: entry.blob for entry in entries if entry.path.rpartition(b"/")[2] == ATTRIBUTES}


def move_foreign_aside(tree: Path, index: Path, aside: Path, *, is_sha256: bool) -> None:
    """Move everything that is not as git wrote it out of a checkout, into the new folder `aside`.

    Raises OSError or GitFailed for what cannot be moved, or a folder whose permissions or attributes were changed.
    """
    stamps = {entry.path: entry.stamp for entry in read_entries(index, is_sha256=is_sha256)}
    aside.mkdir()
    top, usual = os.fsencode(tree), _describe_folder(os.fsencode(aside))
    for n, name in enumerate(list(_find_foreign(top, stamps, usual))):
        os.rename(os.path.join(top, name), os.fsencode(aside / str(n)))  # noqa: PTH104, PTH118 (names are bytes)


def _find_foreign(top: bytes, stamps: Mapping[bytes, FileStamp], usual: tuple[int, list[str]]) -> Iterator[bytes]:
    folders = _list_folders(stamps)
    front = [b""]
    while front:
        folder = front.pop()
        place = os.path.join(top, folder)  # noqa: PTH118 (names are bytes)
        if _describe_folder(place) != usual:
            raise GitFailed(f"{os.fsdecode(place)} has other permissions or attributes than a new folder")
        with os.scandir(place) as entries:
            for entry in entries:
                name = folder + b"/" + entry.name if folder else entry.name
                if entry.is_dir(follow_symlinks=False) and name in folders:
                    front.append(name)
                elif stamps.get(name) != build_stamp(entry.stat(follow_symlinks=False)):
                    yield name


def _describe_folder(path: bytes) -> tuple[int, list[str]]:
    """Permissions and access lists: what is made below a folder may inherit them."""
    return os.lstat(path).st_mode, os.listxattr(path, follow_symlinks=False)


def _list_folders(names: Iterable[bytes]) -> frozenset[bytes]:
    """The folders of these files, each looked at once, with the top."""
    found = {b""}
    front = {name.rpartition(b"/")[0] for name in names}
    while front := front - found:
        found |= front
        front = {folder.rpartition(b"/")[0] for folder in front}
    return frozenset(found)
