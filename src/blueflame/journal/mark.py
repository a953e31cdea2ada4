"""What is beside the journal against its loss: a note of how far it was written, and a second name of its -wal.

By the note (`journal.mark`) lost events are noticed, and a large file that nothing has touched since it was closed need
not be checked. The second name (`journal.newest`, a hard link) has the newest events when the -wal is deleted after a
crash: SQLite would take the journal without them for complete. Both are hints: without them nothing is restored,
everything is checked, and no loss is known.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

WRITING_BACK = "*"  # instead of the file: it is being changed by us
WIDTH = 200  # always rewritten in place by one call, so that a kill leaves the old text or the new one


class Mark(NamedTuple):
    session: str
    seq: int  # of its last event
    file: str  # the journal's own file then: it changes only when the -wal is written back to it
    is_closed: bool


def mark_written(journal: Path, session: str, seq: int) -> None:
    _write_mark(journal, Mark(session, seq, describe_file(journal), is_closed=False))


def mark_writing_back(journal: Path, session: str, seq: int) -> None:
    _write_mark(journal, Mark(session, seq, WRITING_BACK, is_closed=False))


def mark_closed(journal: Path) -> None:
    """Note that it was closed in good order, after its check: its own file has everything then."""
    if (mark := read_mark(journal)) is not None and not get_wal_path(journal).exists():
        _write_mark(journal, mark._replace(file=describe_file(journal), is_closed=True))


def _write_mark(journal: Path, mark: Mark) -> None:
    """Write it without a sync: after a power cut it may be behind the journal, never ahead of it."""
    text = f"{mark.session} {mark.seq} {mark.file} {int(mark.is_closed)}".ljust(WIDTH)
    with suppress(OSError):
        handle = os.open(get_mark_path(journal), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(handle, text.encode(), 0)
        finally:
            os.close(handle)


def read_mark(journal: Path) -> Mark | None:
    try:
        session, seq, file, is_closed = get_mark_path(journal).read_text("utf-8").split()
        return Mark(session, int(seq), file, is_closed == "1")
    except (OSError, ValueError):  # none was written, or by another program
        return None


def remove_mark(journal: Path) -> None:
    with suppress(OSError):
        get_mark_path(journal).unlink(missing_ok=True)


def is_as_closed(journal: Path) -> bool:
    """Whether the journal, which is not open, is what we closed."""
    mark = read_mark(journal)
    same = mark is not None and mark.is_closed and mark.file == describe_file(journal)
    return same and not get_wal_path(journal).exists()


def link_wal(journal: Path) -> None:
    """Give the -wal of a journal that was just opened its second name."""
    link, wal = get_link_path(journal), get_wal_path(journal)
    with suppress(OSError):  # a file system without hard links
        if not (link.exists() and link.samefile(wal)):
            link.unlink(missing_ok=True)
            link.hardlink_to(wal)


def unlink_wal(journal: Path) -> None:
    """Drop the second name after a close, if SQLite has removed the first: written back once more, it would do harm."""
    with suppress(OSError):  # its disk is gone: what failed before this is reported
        if not get_wal_path(journal).exists():
            get_link_path(journal).unlink(missing_ok=True)


def restore_wal(journal: Path) -> None:
    """Give a deleted -wal its name again, before anything opens the journal; not if its file was written since.

    An empty -wal is what another reader made in its place. Its index (-shm) goes, too: it says that there is nothing.
    """
    if not _is_wal_lost(journal):
        return
    link, wal = get_link_path(journal), get_wal_path(journal)
    draft = link.with_suffix(".draft")
    with suppress(OSError), get_mark_path(journal).open("rb") as mark:  # there is no link, or it cannot be written here
        fcntl.flock(mark, fcntl.LOCK_EX)
        if _is_wal_lost(journal):  # else another process has restored it meanwhile, and uses it
            draft.unlink(missing_ok=True)
            draft.hardlink_to(link)
            journal.with_name(f"{journal.name}-shm").unlink(missing_ok=True)
            draft.replace(wal)


def _is_wal_lost(journal: Path) -> bool:
    """Whether the -wal is missing or empty, and not because an orchestrator has just opened it, with both names."""
    mark, link, wal = read_mark(journal), get_link_path(journal), get_wal_path(journal)
    if mark is None or mark.is_closed or mark.file not in (WRITING_BACK, describe_file(journal)):
        return False
    if _measure_file(wal) > 0:
        return False
    try:
        return not link.samefile(wal)
    except OSError:
        return link.exists()


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def describe_file(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "-"
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def get_wal_path(journal: Path) -> Path:
    return journal.with_name(f"{journal.name}-wal")


def get_mark_path(journal: Path) -> Path:
    return journal.with_suffix(".mark")


def get_link_path(journal: Path) -> Path:
    return journal.with_suffix(".newest")
