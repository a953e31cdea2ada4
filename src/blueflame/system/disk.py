"""Measure what can still be written, for the warden and for the orchestrator; have many files written fast."""

from __future__ import annotations

import fcntl
import os
import resource
from array import array
from contextlib import suppress

from blueflame.model.errors import WorldError

MIN_FILE_MB = 16  # a journal, a pack of git, what agents build
MIN_FREE_FILES = 16  # below that no agent can work and no git can write
FULL_BELOW_BYTES = 1 << 20  # what a checkout and git need besides its files
GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS
TOP_OF_HIERARCHY = 0x00020000  # FS_TOPDIR_FL, "chattr +T": "subdirectories are not related"


def measure_free_disk(path: str) -> int | None:
    """Return the bytes that an ordinary user can still write there: 0 if no more files can be made. None: unknown."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    if found.f_files and found.f_favail < MIN_FREE_FILES:  # some file systems do not count files
        return 0
    return found.f_bavail * found.f_frsize


def measure_folder(path: str) -> int:
    """Return the bytes on disk of all files below a folder; what vanishes meanwhile does not count."""
    total = 0
    for folder, _folders, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(f"{folder}/{name}").st_blocks * 512
            except OSError:
                continue
    return total


def check_file_sizes() -> None:
    """Refuse a limit that the journal would meet, and agents, who would be blamed for it."""
    if state := describe_file_limit():
        raise WorldError(f"{state}, then try again")


def describe_file_limit() -> str:
    """Describe a limit on file sizes that is too small for a session, with the fix; "" without one."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY or limit >> 20 >= MIN_FILE_MB:
        return ""
    fix = f"raise it to {MIN_FILE_MB} MB ('ulimit -f {MIN_FILE_MB << 10}') or more"
    return f"files are limited to {limit >> 10:,} kB each, which is too little: {fix}"


def spread_folders(parent: str) -> None:
    """Have folders that are made in `parent` lie far from each other, where inodes are free, if its disk can do it.

    ext4 puts folders made in one folder near each other, and before it gives a new inode it looks at each one near
    there that was removed within the last minutes. Where checkouts come and go, writing 50,000 files took 20 to 30 s
    instead of 2.4.
    """
    with suppress(OSError):  # another file system
        opened = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = array("l", [0])
            fcntl.ioctl(opened, GET_FLAGS, flags)
            if not flags[0] & TOP_OF_HIERARCHY:
                flags[0] |= TOP_OF_HIERARCHY
                fcntl.ioctl(opened, SET_FLAGS, flags)
        finally:
            os.close(opened)
