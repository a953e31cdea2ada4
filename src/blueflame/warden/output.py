"""Write the agent's output to disk, never hold it in memory.

A setup command writes straight into the log files: no socket that a surviving process could hold open. A watched or
sandboxed agent writes into sockets that the warden empties: an agent that holds the file itself could truncate it, and
hide a tool call that no watcher saw. What it wrote to a socket it cannot change later. Not pipes: code that the agent
runs could open /proc/<agent>/fd/1 and forge its result; a socket cannot be opened by its name. A limit on file size
(RLIMIT_FSIZE) does not apply to a socket, so the warden limits the output itself.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.poll_loop import PollLoop

MAX_READ_BYTES = 1 << 20


class Spool:
    """stdout.log and stderr.log, and when they last grew. A closed output counts as silence."""

    def __init__(self, folder: str, poll_loop: PollLoop | None = None) -> None:
        """With a poll loop the handles are sockets, emptied while it waits."""
        self._files = (open_log(f"{folder}/stdout.log"), open_log(f"{folder}/stderr.log"))
        self._poll_loop = poll_loop
        self._readers: dict[int, int] = {}  # reader to log file
        self.handles = self._files if poll_loop is None else self._open_sockets(poll_loop)
        self.size = 0
        self.grew_at = time.monotonic()
        self.heard_at: float | None = None

    def _open_sockets(self, poll_loop: PollLoop) -> tuple[int, int]:
        ends = [self._open_socket(poll_loop, file) for file in self._files]
        return ends[0], ends[1]

    def _open_socket(self, poll_loop: PollLoop, file: int) -> int:
        import socket

        reader, writer = (end.detach() for end in socket.socketpair())
        os.set_blocking(reader, False)
        self._readers[reader] = file
        poll_loop.register(reader, partial(self._copy_chunk, reader))
        return writer

    def _copy_chunk(self, reader: int) -> bool:
        """Copy one chunk; False if there is nothing to read."""
        try:
            data = os.read(reader, MAX_READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_reader(reader)
            return False
        with suppress(OSError):  # full disk: what does not fit is lost, the agent continues
            os.write(self._readers[reader], data)
        return True

    def _close_reader(self, reader: int) -> None:
        if self._poll_loop is not None:
            self._poll_loop.unregister(reader)
        os.close(reader)
        del self._readers[reader]

    def drain(self) -> None:
        """Copy everything written so far to the files."""
        for reader in list(self._readers):
            while self._copy_chunk(reader):
                pass

    def update_size(self) -> None:
        try:
            size = sum(os.fstat(file).st_size for file in self._files)
        except OSError:  # a network disk that is not reachable
            return
        if size != self.size:
            self.size = size
            self.grew_at = time.monotonic()
            self.heard_at = time.time()

    def is_deleted(self) -> bool:
        try:
            return all(os.fstat(file).st_nlink == 0 for file in self._files)
        except OSError:
            return False

    def finish(self, max_bytes: int) -> None:
        """Copy the rest after the writers are gone, and truncate what exceeds the limit."""
        self.drain()
        self.update_size()
        with suppress(OSError):
            for file in self._files:
                if max_bytes and os.fstat(file).st_size > max_bytes:
                    os.ftruncate(file, max_bytes)


def open_log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
