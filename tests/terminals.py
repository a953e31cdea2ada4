"""Somebody connected to an agent's terminal, for tests: sends frames, gathers what comes."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blueflame.model.frames import ENDED, HEAD, KEYS, PAST, SHOWN, SIZE, SOCKET, WINDOW, frame
from wardens import PATIENCE, until


class Viewer:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.past = b""
        self.seen = b""
        self.ended = False
        self.gone = False
        self._got = b""

    def type(self, keys: bytes) -> None:
        self.connection.sendall(frame(KEYS, keys))

    def resize(self, rows: int, columns: int) -> None:
        self.connection.sendall(frame(SIZE, WINDOW.pack(rows, columns)))

    def expect(self, text: bytes) -> bytes:
        """Read until the text has come; gives everything that has been shown so far."""
        give_up = time.monotonic() + PATIENCE
        while text not in self.past + self.seen:
            assert not self.gone, f"the connection ended without {text!r}: {self.past + self.seen!r:.2000}"
            assert time.monotonic() < give_up, f"{text!r} did not come: {self.past + self.seen!r:.2000}"
            self.read()
        return self.past + self.seen

    def until_gone(self) -> bool:
        """Whether it was told that the agent has ended, before the connection did."""
        give_up = time.monotonic() + PATIENCE
        while not self.gone:
            assert time.monotonic() < give_up, "the connection does not end"
            self.read()
        return self.ended

    def read(self) -> None:
        if not select.select([self.connection], [], [], 0.2)[0]:
            return
        try:
            data = self.connection.recv(65536)
        except ConnectionError:
            data = b""
        self.gone = not data
        self._got += data
        while len(self._got) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._got)
            if len(self._got) < HEAD.size + length:
                break
            content, self._got = self._got[HEAD.size : HEAD.size + length], self._got[HEAD.size + length :]
            self.past += content if kind == PAST else b""
            self.seen += content if kind == SHOWN else b""
            self.ended |= kind == ENDED


@contextmanager
def viewing(folder: Path) -> Iterator[Viewer]:
    until((folder / SOCKET).exists, "the agent has a terminal")
    handle = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(f"/proc/self/fd/{handle}/{SOCKET}")
        os.close(handle)
        yield Viewer(connection)
