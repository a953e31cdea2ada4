"""Measure what can still be written, for the warden and for the orchestrator."""

from __future__ import annotations

import os
import resource

from blueflame.model.errors import WorldError

MIN_FILE_MB = 16  # a journal, a pack of git, what agents build
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


def check_file_sizes() -> None:
    """Refuse a limit that the journal would meet, and agents, who would be blamed for it."""
    if state := describe_file_limit():
        raise WorldError(f"{state}, then run 'blueflame resume'")


def describe_file_limit() -> str:
    """Describe a limit on file sizes that is too small for a session, with the fix; "" without one."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY or limit >> 20 >= MIN_FILE_MB:
        return ""
    fix = f"raise it to {MIN_FILE_MB} MB ('ulimit -f {MIN_FILE_MB << 10}') or more"
    return f"files are limited to {limit >> 10:,} kB each, which is too little: {fix}"
