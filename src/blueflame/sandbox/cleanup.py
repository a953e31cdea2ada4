"""Removes what a box leaves behind, once nobody is in it any more."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def make_temporary_folder() -> Iterator[Path]:
    """Ours alone, and gone at the end. Not tempfile's own: before Python 3.11.8 its removal changes the permissions of
    whatever a link in there leads to."""
    folder = Path(tempfile.mkdtemp(prefix="blueflame-"))
    try:
        yield folder
    finally:
        remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Also folders that were made unwritable; links are removed, not followed."""
    for place, names, _ in os.walk(folder, onerror=None):
        for name in names:
            below = Path(place, name)
            if not below.is_symlink():
                with suppress(OSError):
                    below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
