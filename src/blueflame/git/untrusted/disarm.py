"""Disarm a checkout that an agent has left, before a person looks at it.

A plain `git status` runs what the settings beside it name, and an agent can write those. So nothing of the checkout's
git folder stays but history, index and excludes; the settings are ours again. Repositories within lose what could run
something or lead elsewhere. No git runs here, and no link is followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from blueflame.git.checkouts import CheckoutRecord, read_record, remove_checkout, remove_tree, write_own_files
from blueflame.git.command import OBJECT_ID
from blueflame.git.repository import Repository
from blueflame.git.untrusted.branches import MAX_REF_FILE_BYTES, read_plain
from blueflame.model.errors import GitFailed, WorldError

KEPT_IN_GIT = frozenset(
    (
        *("HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "COMMIT_EDITMSG"),
        *("objects", "refs", "packed-refs", "logs", "index"),
    )
)
"""What a person needs to see what was done. A half-done rebase is not among them: it could run commands."""

SMALL_IN_GIT = frozenset({"HEAD", "packed-refs"})
DROPPED_WITHIN = ("config.worktree", "commondir", "rebase-merge", "rebase-apply", "sequencer")
HARMLESS_CONFIG = re.compile(
    r'\s*(?:[#;].*|\[(?:core|user|extensions)\]|\[(?:remote|branch|submodule) "[^"\\]*"\]|'
    r"(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|name|email|"
    r"objectformat|refstorage|url|fetch|remote|merge|active|path)\s*=[^\\]*)?",
    re.IGNORECASE,
)
HEAD_TEXT = re.compile(rf"(?:ref: refs/heads/[^\s\x00-\x1f]+|{OBJECT_ID.pattern})\n?")


def disarm_checkout(repo: Repository, path: Path) -> None:
    """Disarm a checkout of ours; one that cannot be disarmed is removed. Repeating it changes nothing."""
    if not os.path.lexists(path) or (record := read_record(path)) is None:
        return
    try:
        _make_plain_folder(path)
        _disarm_own_folder(repo, path, record)
        for place in list(_find_repositories(path)):
            _disarm_repository_within(place)
    except (OSError, WorldError):
        remove_checkout(path)


def _disarm_own_folder(repo: Repository, path: Path, record: CheckoutRecord) -> None:
    inside = path / ".git"
    _make_plain_folder(inside)
    for entry in _scan(inside):
        if entry.name not in KEPT_IN_GIT:
            _remove(Path(entry.path))
    for folder, entries in _walk(inside):
        small = folder == inside / "refs" or inside / "refs" in folder.parents
        for entry in entries:
            if not _is_plain(entry) or ((small or entry.name in SMALL_IN_GIT) and _is_huge(entry)):
                _remove(Path(entry.path))
    for name in ("objects", "refs", "objects/info"):
        _make_plain_folder(inside / name)
    for name in ("alternates", "http-alternates"):
        _remove(inside / "objects" / "info" / name)
    _restore_head(inside / "HEAD", record.base)
    write_own_files(repo, path, record.base)


def _restore_head(head: Path, base: str) -> None:
    """Write one where none is valid: without it git would take the repository around, the person's, for this one."""
    with suppress(GitFailed):
        if HEAD_TEXT.fullmatch(read_plain(head) or ""):
            return
    _remove(head)
    head.write_text(f"{base}\n", "ascii")


def _find_repositories(path: Path) -> Iterator[Path]:
    """Find what git takes for a repository: anything named .git, and folders that are laid out like one."""
    for folder, entries in _walk(path):
        names = {entry.name for entry in entries}
        if "HEAD" in names and names & {"objects", "commondir"} and folder not in (path, path / ".git"):
            yield folder
        yield from (
            folder / name for name in sorted(names) if name.lower() == ".git" and folder / name != path / ".git"
        )


def _disarm_repository_within(place: Path) -> None:
    """Remove what runs something or leads elsewhere; an honest one, such as a fixture of a test, stays as it is."""
    if place.is_symlink() or not place.is_dir():
        _remove(place)
        return
    for entry in _scan(place):
        if not _is_plain(entry) or entry.name in DROPPED_WITHIN:
            _remove(Path(entry.path))
    if not _is_harmless(place / "config"):
        _remove(place / "config")
    hooks = place / "hooks"
    if hooks.is_dir() and not all(entry.name.endswith(".sample") for entry in _scan(hooks)):
        _remove(hooks)


def _is_harmless(config: Path) -> bool:
    try:
        return all(HARMLESS_CONFIG.fullmatch(line) for line in (read_plain(config) or "").split("\n"))
    except GitFailed:
        return False


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file or a folder: git would write through an index that is a link, and wait for a pipe."""
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def _is_huge(entry: os.DirEntry[str]) -> bool:
    return entry.stat(follow_symlinks=False).st_size > MAX_REF_FILE_BYTES


def _walk(top: Path) -> Iterator[tuple[Path, list[os.DirEntry[str]]]]:
    """Yield every folder with its entries, whatever its permissions; links are not followed."""
    front = [top]
    while front:
        folder = front.pop()
        entries = _scan(folder)
        yield folder, entries
        front += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(PermissionError), os.scandir(folder) as entries:
        return list(entries)
    folder.chmod(stat.S_IRWXU)
    with os.scandir(folder) as entries:
        return list(entries)


def _make_plain_folder(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        _remove(path)
        path.mkdir()
    _let_us_write(path)


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        _let_us_write(path.parent)
        path.unlink(missing_ok=True)
    else:
        remove_tree(path)


def _let_us_write(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(mode | stat.S_IRWXU)
