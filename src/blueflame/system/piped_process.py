"""A child that answers one request after the other through pipes, for programs that cost more to start than to ask.

It ends when its input is closed, so it also ends with us. Every answer has a time limit, and reading and writing go on
together: neither side can wait for the other.
"""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from blueflame.model.errors import ProcessFailed
from blueflame.system.files import open_temporary_file
from blueflame.system.process import kill_group, limit_memory, start_process
from blueflame.system.process_identity import is_stopped

CHUNK_BYTES = 1 << 16
MAX_STOPPED_SECONDS = 10.0  # without an answer, after which a stopped child is given up
END_SECONDS = 1.0  # for a child whose input is closed


class PipedProcess:
    """Not for two threads at once. After an exception it is of no use: a rest of its answer may be in the pipe."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], max_memory: int | None = None
    ) -> None:
        self._argv, self._cwd = argv, cwd
        self._errors: IO[bytes] = open_temporary_file()  # closed in `close`
        try:
            self._child = start_process(
                argv, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except ProcessFailed:
            self._errors.close()
            raise
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._input, self._output = self._child.stdin.fileno(), self._child.stdout.fileno()
        self._unsent, self._unread = b"", bytearray()
        self._timeout, self._give_up = 0.0, 0.0
        os.set_blocking(self._input, False)
        if max_memory is not None:
            limit_memory(self._child.pid, max_memory)

    @property
    def pid(self) -> int:
        return self._child.pid

    def send(self, data: bytes, *, timeout: float) -> None:
        """Send a request; its answer must be complete within `timeout` seconds."""
        self._unsent += data
        self._timeout, self._give_up = timeout, time.monotonic() + timeout

    def read_line(self) -> bytes:
        """Return the next line without its end."""
        return self.read_until(b"\n")

    def read_until(self, mark: bytes, max_bytes: int | None = None) -> bytes:
        """Return what is before the next mark. OverflowError: there is more than `max_bytes` of it."""
        searched = 0
        while (at := self._unread.find(mark, searched)) < 0:
            searched = max(0, len(self._unread) - len(mark) + 1)
            if max_bytes is not None and len(self._unread) > max_bytes:
                raise OverflowError
            self._transfer()
        return self._take(at, len(mark))

    def read_exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._transfer()
        return self._take(size)

    def _take(self, size: int, end: int = 0) -> bytes:
        taken = bytes(self._unread[:size])
        del self._unread[: size + end]
        return taken

    def _transfer(self) -> None:
        """Write and read what the pipes take and have, or wait. EOFError: the child has ended, or was stopped."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if self._unsent:
            poll.register(self._input, select.POLLOUT)
        left = self._give_up - time.monotonic()
        ready = [handle for handle, _ in poll.poll(max(0.0, min(left, MAX_STOPPED_SECONDS)) * 1000)]
        if not ready and is_stopped(self._child.pid):
            raise EOFError
        if not ready and left <= 0:
            done = f"not finished after {self._timeout:g} seconds, so it was killed"
            raise ProcessFailed(f"{shlex.join(self._argv)} in {self._cwd}: {done}")
        if self._input in ready:
            with suppress(BrokenPipeError):  # it has ended; reading says so
                self._unsent = self._unsent[os.write(self._input, self._unsent) :]
        if self._output in ready:
            data = os.read(self._output, CHUNK_BYTES)
            if not data:
                raise EOFError
            self._unread += data

    def kill(self) -> None:
        kill_group(self._child.pid)
        self.close()

    def close(self) -> tuple[int, str]:
        """End it, by its closed input or else by a signal. Return its exit code and what it wrote to stderr."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_group(self._child.pid)
            self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._errors.seek(0)
        with self._errors:
            return self._child.returncode, self._errors.read().decode("utf-8", "replace")
