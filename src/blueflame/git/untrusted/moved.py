"""Lead checkouts to our objects again after the repository was moved to another path."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from blueflame.git.checkouts import CheckoutRecord, list_checkouts, read_record, write_record
from blueflame.git.repository import Repository
from blueflame.git.untrusted.branches import read_plain
from blueflame.model.errors import WorldError


def follow_repository(repo: Repository, worktrees: Path) -> None:
    """Write the new path into checkouts that borrow from the old one.

    Otherwise git finds no objects in them, and what we wrote there looks as if an agent had written it.
    """
    ours = str(repo.objects)
    for path in list_checkouts(worktrees):
        with suppress(WorldError, OSError):  # it is judged as its agent left it
            record = read_record(path)
            if record is not None and record.borrowed not in ("", ours) and _borrows_as_recorded(path, record):
                _write_plain(path / ".git" / "objects" / "info" / "alternates", f"{ours}\n")
                write_record(path, replace(record, borrowed=ours))


def _borrows_as_recorded(path: Path, record: CheckoutRecord) -> bool:
    """Whether its git folder says what we wrote, in plain folders: an agent's own text is not corrected."""
    folder = path / ".git" / "objects" / "info"
    if any(each.is_symlink() for each in (path, folder.parent.parent, folder.parent, folder)):
        return False
    written = f"{record.borrowed}\n".encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return read_plain(folder / "alternates") == written


def _write_plain(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode("utf-8", "surrogateescape"))
    finally:
        os.close(handle)
