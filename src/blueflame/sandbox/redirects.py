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
        stdin = _relay_file(files.stdin, opened, readers, reading=True)
        stdout = _relay_file(files.stdout, opened, writers)
        same = stdout != files.stdout and os.path.sameopenfile(files.stdout, files.stderr)
        yield StandardFiles(stdin, stdout, stdout if same else _relay_file(files.stderr, opened, writers))
    finally:
        for handle in opened:
            os.close(handle)
        for reader in readers:
            reader.kill()
        for relay in (*readers, *writers):
            relay.wait()  # all writers inside are gone: it only has to finish


def _relay_file(file: int, opened: list[int], relays: list[subprocess.Popen[bytes]], *, reading: bool = False) -> int:
    """Return the end of a pipe that a relay connects to the file; the file itself if it cannot be reopened."""
    mode = os.fstat(file).st_mode
    if stat.S_ISDIR(mode):
        raise UsageError("cannot redirect a folder to a command in the sandbox: redirect a file")
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        return file
    reader, writer = os.pipe()
    ours, theirs = (reader, writer) if reading else (writer, reader)
    opened.append(ours)
    source, sink = (file, theirs) if reading else (theirs, file)
    try:
        # in a new session: Ctrl-C is for the command only
        relay = subprocess.Popen(
            ["/bin/cat"], stdin=source, stdout=sink, stderr=subprocess.DEVNULL, start_new_session=True
        )
        relays.append(relay)
    finally:
        os.close(theirs)
    return ours
