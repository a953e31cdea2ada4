"""Files that a person redirects to or from a command in a box are carried over by a program outside of it.

An open file brings its whole self along: `/proc/self/fd/0` opens it again, for writing, and past every mount. Of a pipe
there is nothing to be had but what goes through it.
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
    """What to give to the box in the place of these three; when the block is left, everything has arrived."""
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
        for carrier in (*readers, *writers):
            carrier.wait()  # nobody inside is left to write: it only has to finish


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
        raise UsageError("a folder cannot be given to a command in the sandbox: it could be entered; redirect a file")
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode)


def _start_relay(source: int, sink: int) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for the command to hear."""
    return subprocess.Popen(["/bin/cat"], stdin=source, stdout=sink, stderr=subprocess.DEVNULL, start_new_session=True)
