"""A file lock that the kernel releases when its holder dies.

The file is never removed: a process that opened it before would then hold a lock that no other process can see.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from blueflame.model.errors import Refused, WorldError
from blueflame.system.files import build_file_error, explain_file_errors
from blueflame.system.process_identity import read_identity

# A reader takes the lock for some microseconds, and a holder writes its note just after taking it: the lock counts as
# held only if it is held for longer than either.
LOCK_TRIES, LOCK_PAUSE_SECONDS = 5, 0.01
FOLDER_SECONDS = 10.0


class LockHeld(Refused):
    """Another process holds the lock; `holder` is the content of the file."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by {holder or 'an unknown process'}")
        self.path = path
        self.holder = holder


@contextmanager
def hold_lock(path: Path, content: str) -> Iterator[None]:
    """Hold the lock for the block, or raise LockHeld; `content` (see `format_lock_note`) identifies us."""
    handle = _open_lock(path)
    try:
        _take_lock(handle, path)
        try:
            _write_note(handle, content, path)
            yield
        finally:
            with suppress(OSError):  # the disk fails: that must not hide how the block ended
                os.ftruncate(handle, 0)  # the note names the holder, so it goes with the lock
    finally:
        os.close(handle)


def read_lock_holder(path: Path) -> str | None:
    """Return the content of a held lock, None if it is free."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise build_file_error("open the lock", path, e) from e
    try:
        return None if _try_lock(handle, fcntl.LOCK_SH, path) else _read_note(handle)
    finally:
        os.close(handle)


def wait_until_free(path: Path) -> None:
    """Wait until no process holds the lock, without taking it for longer than a reader does."""
    handle = _open_lock(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def format_lock_note(note: str = "") -> str:
    """Format `<pid> <start> <RFC3339> <note>`, which identifies the holder even if its pid is reused."""
    me = read_identity(os.getpid())
    start = f"{me.start_time:.0f}" if me else "0"
    return f"{os.getpid()} {start} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {note}".strip()


class LockNote(NamedTuple):
    pid: int
    since: float
    note: str


def parse_lock_note(text: str) -> LockNote | None:
    """Parse what `format_lock_note` wrote; None for anything else."""
    words = text.split(" ", 3)
    try:
        since = datetime.strptime(words[2], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return LockNote(int(words[0]), since.timestamp(), words[3] if len(words) > 3 else "")
    except (IndexError, ValueError):
        return None


@contextmanager
def hold_folder(path: Path) -> Iterator[None]:
    """Take turns with other processes at something short, without a file of ours.

    Go on where folders cannot be locked, and after a while: one who holds it may be stopped.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    give_up = time.monotonic() + FOLDER_SECONDS
    try:
        with suppress(WorldError):
            while not _try_lock(handle, fcntl.LOCK_EX, path) and time.monotonic() < give_up:
                time.sleep(LOCK_PAUSE_SECONDS)
        yield
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    with explain_file_errors("open the lock", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _take_lock(handle: int, path: Path) -> None:
    for look in range(LOCK_TRIES):
        if _try_lock(handle, fcntl.LOCK_EX, path):
            return
        if look + 1 < LOCK_TRIES:
            time.sleep(LOCK_PAUSE_SECONDS)
    raise LockHeld(path, _read_note(handle))


def _try_lock(handle: int, how: int, path: Path) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:  # as on a network disk whose locks do not work
        raise build_file_error("lock", path, e) from e
    return True


def _read_note(handle: int) -> str:
    return os.pread(handle, 4096, 0).decode("utf-8", "replace").strip()


def _write_note(handle: int, content: str, path: Path) -> None:
    with explain_file_errors("write the lock", path):
        os.ftruncate(handle, 0)
        os.pwrite(handle, content.encode("utf-8", "surrogateescape") + b"\n", 0)
