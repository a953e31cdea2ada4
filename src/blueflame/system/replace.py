"""Replace a file only if it is still what we read: an editor may save it between our reading and our writing.

The kernel exchanges the new file and the old one in one step, so that what was there can be compared afterwards, and
be put back. Where it cannot, the old file is compared just before it is replaced.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

from blueflame.system.fd import sync_path
from blueflame.system.files import explain_file_errors, write_draft

HERE = -2 if sys.platform == "darwin" else -100  # AT_FDCWD
EXCHANGE = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
FUNCTION = "renameatx_np" if sys.platform == "darwin" else "renameat2"
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)


def replace_unchanged(path: Path, before: bytes | None, content: bytes) -> bool:
    """Replace the file if it has the content `before` (None: there is no file). Return False if it has another."""
    with explain_file_errors("write", path), suppress(FileNotFoundError), write_draft(path, content) as draft:
        done = _create(draft, path) if before is None else _replace(draft, path, before, content)
        if done:
            sync_path(str(path.parent))
        return done
    return False  # deleted meanwhile


def _create(draft: Path, path: Path) -> bool:
    """A link fails if the file exists; a rename would replace it."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    except OSError as e:
        if e.errno not in NO_LINKS or path.exists():
            raise
        draft.replace(path)
    return True


def _replace(draft: Path, path: Path, before: bytes, content: bytes) -> bool:
    if not _exchange(draft, path):
        if path.read_bytes() != before:
            return False
        draft.replace(path)
        return True
    if draft.read_bytes() == before:
        return True
    _exchange(draft, path)  # what another program saved goes back
    if draft.read_bytes() != content:  # it saved again, over ours: that is the newest
        _exchange(draft, path)
    return False


def _exchange(one: Path, other: Path) -> bool:
    """Return False where the system cannot exchange two files."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), FUNCTION, None)
    if rename is None:
        return False
    if rename(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(other))
