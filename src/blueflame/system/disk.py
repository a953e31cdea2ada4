"""Measure what can still be written, for the warden and for the orchestrator."""

from __future__ import annotations

import os

MIN_FREE_FILES = 16  # below that no agent can work and no git can write


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
