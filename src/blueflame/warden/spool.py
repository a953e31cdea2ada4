"""The agent's output goes straight into files: no pipe that a survivor could hold, no memory that a flood fills."""

from __future__ import annotations

import os
import time
from contextlib import suppress


class Spool:
    """stdout.log and stderr.log, and when they last grew. A closed output is a silent one, nothing more."""

    __slots__ = ("grew_at", "handles", "heard_at", "size")

    def __init__(self, folder: str) -> None:
        self.handles = (open_log(f"{folder}/stdout.log"), open_log(f"{folder}/stderr.log"))
        self.size = 0
        self.grew_at = time.monotonic()
        self.heard_at: float | None = None

    def look(self) -> None:
        try:
            size = sum(os.fstat(handle).st_size for handle in self.handles)
        except OSError:  # a network disk that went away: the agent may live on without it
            return
        if size != self.size:
            self.size = size
            self.grew_at = time.monotonic()
            self.heard_at = time.time()

    def silent_for(self) -> float:
        return time.monotonic() - self.grew_at

    def trim(self, max_bytes: int) -> None:
        """After the writers are gone: what a flood wrote between two looks is given back to the disk."""
        with suppress(OSError):
            for handle in self.handles:
                if max_bytes and os.fstat(handle).st_size > max_bytes:
                    os.ftruncate(handle, max_bytes)


def open_log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
