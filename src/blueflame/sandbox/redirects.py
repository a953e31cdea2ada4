"""Relay files that a person redirects to or from a command in the sandbox through a pipe.

`/proc/self/fd/0` reopens an open file, for writing and past every mount. A pipe gives access to what goes through it
only.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from blueflame.model.errors import UsageError


class StandardFiles(NamedTuple):
    stdin: int = 0
    stdout: int = 1
    stderr: int = 2


@contextmanager
def relay_files(files: StandardFiles) -> Iterator[StandardFiles]:
    """Yield replacements for these three files; when the block ends, everything is relayed."""
    opened: list[int] = []
    writers: list[subprocess.Popen[bytes]] = []
    readers: list[subprocess.Popen[bytes]] = []
    try:
        stdin = _relay_input(files.stdin, opened, readers)
        stdout = _relay_output(files.stdout, opened, writers)
        same = stdout != files.stdout and os.path.sameopenfile(files.stdout, files.stderr)
        yield StandardFiles(stdin, stdout, stdout if same else _relay_output(files.stderr, opened, writers))
    finally:
        for handle in opened:
            os.close(handle)
        for reader in readers:
            reader.kill()
        for relay in (*readers, *writers):
            relay.wait()  # all writers inside are gone: it only has to finish


def _relay_input(source: int, opened: list[int], carriers: list[subprocess.Popen[bytes]]) -> int:
    if not _is_reopenable(source):
        return source
    ours, theirs = os.pipe()
    opened.append(ours)
    try:
        carriers.append(_start_relay(source, theirs))
    finally:
        os.close(theirs)
    return ours


def _relay_output(sink: int, opened: list[int], carriers: list[subprocess.Popen[bytes]]) -> int:
    if not _is_reopenable(sink):
        return sink
    theirs, ours = os.pipe()
    opened.append(ours)
    try:
        carriers.append(_start_relay(theirs, sink))
    finally:
        os.close(theirs)
    return ours


def _is_reopenable(handle: int) -> bool:
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise UsageError("cannot redirect a folder to a command in the sandbox: redirect a file")
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode)


def _start_relay(source: int, sink: int) -> subprocess.Popen[bytes]:
    """In a new session: Ctrl-C is for the command only."""
    return subprocess.Popen(["/bin/cat"], stdin=source, stdout=sink, stderr=subprocess.DEVNULL, start_new_session=True)
