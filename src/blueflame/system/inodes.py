"""Have ext4 write many files fast.

It puts folders made in one folder near each other, and before it gives a new inode it looks at each one near there that
was removed within the last minutes. Where checkouts come and go, writing 50,000 files took 20 to 30 s instead of 2.4.
"""

from __future__ import annotations

import fcntl
import os
from array import array
from contextlib import suppress
from pathlib import Path

GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS
TOP_OF_HIERARCHY = 0x00020000  # FS_TOPDIR_FL, "chattr +T": "subdirectories are not related"


def spread_folders(parent: Path) -> None:
    """Have folders that are made in `parent` lie far from each other, where inodes are free, if its disk can do it."""
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
