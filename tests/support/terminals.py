"""Terminals for tests: a viewer connected to an agent's socket, and a person at a real terminal."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blueflame.system.terminal_frames import (
    ENDED,
    HEADER,
    KEYS,
    PAST,
    SHOWN,
    SIZE,
    SOCKET_NAME,
    WINDOW_SIZE,
    build_frame,
)
from support.wardens import PATIENCE, wait_until


class Viewer:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.past = b""
        self.seen = b""
        self.ended = False
        self.gone = False
        self._got = b""

    def type(self, keys: bytes) -> None:
        self.connection.sendall(build_frame(KEYS, keys))

    def resize(self, rows: int, columns: int) -> None:
        self.connection.sendall(build_frame(SIZE, WINDOW_SIZE.pack(rows, columns)))

    def expect(self, text: bytes) -> bytes:
        """Read until the text appears; return everything shown so far."""
        give_up = time.monotonic() + PATIENCE
        while text not in self.past + self.seen:
            assert not self.gone, f"the connection ended without {text!r}: {self.past + self.seen!r:.2000}"
            assert time.monotonic() < give_up, f"{text!r} did not come: {self.past + self.seen!r:.2000}"
            self.read()
        return self.past + self.seen

    def until_gone(self) -> bool:
        """Whether the end of the agent was reported before the connection ended."""
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
        while len(self._got) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._got)
            if len(self._got) < HEADER.size + length:
                break
            content, self._got = self._got[HEADER.size : HEADER.size + length], self._got[HEADER.size + length :]
            self.past += content if kind == PAST else b""
            self.seen += content if kind == SHOWN else b""
            self.ended |= kind == ENDED


@contextmanager
def open_viewer(folder: Path) -> Iterator[Viewer]:
    wait_until((folder / SOCKET_NAME).exists, "the agent has a terminal")
    handle = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(f"/proc/self/fd/{handle}/{SOCKET_NAME}")
        os.close(handle)
        yield Viewer(connection)


Modes = list[Any]
LONG_PATIENCE = 90.0  # for real agents on a machine that has much to do


class TerminalUser:
    """A person at a real terminal in which a program runs; sees every byte."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, modes: Modes) -> None:
        self.process = process
        self.master = master
        self.modes_before = modes
        self.seen = b""

    @property
    def modes(self) -> Modes:
        """The modes of the terminal."""
        return termios.tcgetattr(self.master)

    @property
    def is_raw(self) -> bool:
        return not int(self.modes[3]) & termios.ICANON

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, text: bytes) -> bytes:
        """Read until the text appears; return and discard what came before."""
        give_up = time.monotonic() + LONG_PATIENCE
        while text not in self.seen:
            assert time.monotonic() < give_up, f"{text!r} did not come; instead: {self.seen!r:.3000}"
            assert self._read(), f"it ended without {text!r}: {self.seen!r:.3000}"
        before, _, self.seen = self.seen.partition(text)
        return before

    def end(self) -> int:
        give_up = time.monotonic() + LONG_PATIENCE
        while self._read():
            assert time.monotonic() < give_up, f"it does not end: {self.seen!r:.3000}"
        return self.process.wait(LONG_PATIENCE)

    def _read(self) -> bool:
        if not select.select([self.master], [], [], 0.2)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self.seen += data
        return bool(data)


ON_ITS_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"


@contextmanager
def start_terminal_user(code: str, *argv: object, rows: int = 24, columns: int = 80) -> Iterator[TerminalUser]:
    """Start a Python program in its own terminal, which outlives it and shows in which state it was left."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    modes = termios.tcgetattr(master)
    process = subprocess.Popen(
        [sys.executable, "-c", ON_ITS_TERMINAL + code, *map(str, argv)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    person = TerminalUser(process, master, modes)
    with process:
        try:
            yield person
        finally:
            process.kill()
            os.close(slave)
            os.close(master)
