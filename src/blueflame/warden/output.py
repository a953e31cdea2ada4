"""The agent's output, on the disk and never in memory.

A command's goes straight into the files: no pipe that a survivor could hold. A watched or boxed agent's comes through
pipes that the warden empties. A limit on the size of its files is no limit on what it says then; and whoever holds a
file can cut it off, or open it again through /proc: an agent that may rewrite what it has said could hide a call that
nobody was asked about. What is in a pipe cannot be taken back.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.wakeup import PollLoop

MAX_READ_BYTES = 1 << 20


class Spool:
    """stdout.log and stderr.log, and when they last grew. A closed output is a silent one, nothing more."""

    __slots__ = ("_bell", "_files", "_pipes", "grew_at", "handles", "heard_at", "size")

    def __init__(self, folder: str, bell: PollLoop | None = None) -> None:
        """With a bell the handles are pipes, which it empties while it waits."""
        self._files = (open_log(f"{folder}/stdout.log"), open_log(f"{folder}/stderr.log"))
        self._bell = bell
        self._pipes: dict[int, int] = {}  # from which end into which file
        self.handles = self._files if bell is None else self._lay_pipes(bell)
        self.size = 0
        self.grew_at = time.monotonic()
        self.heard_at: float | None = None

    def _lay_pipes(self, bell: PollLoop) -> tuple[int, int]:
        ends = [self._lay_pipe(bell, file) for file in self._files]
        return ends[0], ends[1]

    def _lay_pipe(self, bell: PollLoop, file: int) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._pipes[reader] = file
        bell.serve(reader, partial(self._empty, reader))
        return writer

    def _empty(self, reader: int) -> bool:
        """One gulp; False when there is nothing (more) to come."""
        try:
            data = os.read(reader, MAX_READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._forget(reader)
            return False
        with suppress(OSError):  # a full disk: what does not fit is lost, the agent goes on
            os.write(self._pipes[reader], data)
        return True

    def _forget(self, reader: int) -> None:
        if self._bell is not None:
            self._bell.forget(reader)
        os.close(reader)
        del self._pipes[reader]

    def drain(self) -> None:
        """All that has been said so far is in the files then."""
        for reader in list(self._pipes):
            while self._empty(reader):
                pass

    def look(self) -> None:
        try:
            size = sum(os.fstat(file).st_size for file in self._files)
        except OSError:  # a network disk that went away: the agent may live on without it
            return
        if size != self.size:
            self.size = size
            self.grew_at = time.monotonic()
            self.heard_at = time.time()

    def silent_for(self) -> float:
        return time.monotonic() - self.grew_at

    def finish(self, max_bytes: int) -> None:
        """After the writers are gone: the last words, and what a flood wrote too much is given back to the disk."""
        self.drain()
        self.look()
        with suppress(OSError):
            for file in self._files:
                if max_bytes and os.fstat(file).st_size > max_bytes:
                    os.ftruncate(file, max_bytes)


def open_log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
