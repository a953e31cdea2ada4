"""Files by descriptor, without pathlib: its imports would cost every warden some 10 ms."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import time

MAX_READ_BYTES = 64 * 1024 * 1024
BLOCK_BYTES = 1 << 16
LOCK_POLL_SECONDS = 0.02


def read_file(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_to_end(handle)
    finally:
        os.close(handle)


def write_file(path: str, content: str) -> None:
    """Write to an existing file in one call, as the files of the kernel need it."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, content.encode())
    finally:
        os.close(handle)


def read_to_end(handle: int) -> bytes:
    parts: list[bytes] = []
    while sum(map(len, parts)) < MAX_READ_BYTES and (part := os.read(handle, BLOCK_BYTES)):
        parts.append(part)
    return b"".join(parts)


def write_to_end(handle: int, data: bytes) -> None:
    while data:  # a nearly full disk may cut a write short
        data = data[os.write(handle, data) :]


def append_line(handle: int, line: bytes) -> str:
    """Write a line in one call, so that several writers can share a file. Return why it failed, or ""."""
    try:
        return "" if os.write(handle, line) == len(line) else "the disk is full"
    except OSError as e:
        return str(e.strerror)


def list_open_files() -> list[int]:
    """List the open descriptors of this process, with that of the listing itself."""
    try:
        return [int(name) for name in os.listdir("/dev/fd") if name.isdigit()]  # noqa: PTH208 (no pathlib here)
    except OSError:
        return list(range(3, max(1 << 16, resource.getrlimit(resource.RLIMIT_NOFILE)[0])))


def sync_path(path: str) -> None:
    """Make what is written to a file durable, or the names in a folder: a rename is only when its folder is."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by some network file systems
            raise
    finally:
        os.close(handle)


def wait_for_lock(handle: int, seconds: float) -> bool:
    """Take the exclusive lock of an open file; False if another process still holds it after that time."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                return False
            time.sleep(LOCK_POLL_SECONDS)
        else:
            return True
