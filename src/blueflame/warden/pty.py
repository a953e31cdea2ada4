"""The agent's own terminal, held by the warden: viewers connect and leave, and no agent has a person's terminal.

Output is read at once, with or without viewers, and the last of it is kept for later ones. Viewers connect at
`attach.sock` in the attempt's folder, which no sandbox contains (format: system/terminal_frames.py). A slow viewer
misses output; the agent never waits.
"""

# ruff: noqa: PTH105, PTH108, PTH110, PTH118 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import termios
import time
from contextlib import suppress

from blueflame.system.terminal_frames import (
    ENDED,
    HEADER,
    KEYS,
    MAX_CONTENT_BYTES,
    PAST,
    SHOWN,
    SIZE,
    SOCKET_NAME,
    WINDOW_SIZE,
    build_frame,
)
from blueflame.warden.process_tree import list_descendants, signal_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.poll_loop import PollLoop

KEPT_BYTES = 256 * 1024
MAX_TYPED_BYTES = 64 * 1024  # keys that wait for an agent that does not read
MAX_UNREAD_BYTES = 4 * KEPT_BYTES
MAX_VIEWERS = 16
CLOSE_TIMEOUT = 1.0  # seconds for all viewers together to read the rest
MAX_READ_BYTES = 64 * 1024


class AgentTerminal:
    """`handle` is the agent's side, for its stdin."""

    def __init__(self, folder: str, size: tuple[int, int], poll_loop: PollLoop) -> None:
        self._poll_loop = poll_loop
        self._folder = folder
        self._keys = bytearray()
        self._past = bytearray()
        self._size = (0, 0)
        self._due: tuple[int, int] | None = None
        self._viewers: list[_Viewer] = []
        self._listener = _open_listener(folder)
        try:
            # the agent's side stays open here: without it, the terminal would hang up
            self._master, self.handle = os.openpty()
        except OSError:
            self._listener.close()
            raise
        os.set_blocking(self._master, False)
        self.resize(*size)
        poll_loop.register(self._master, self._handle_event)
        poll_loop.register(self._listener.fileno(), self._accept_viewer)

    def close(self) -> None:
        """Send the last output after the agent's end, and close."""
        while self._read_output():
            pass
        for viewer in list(self._viewers):
            viewer.send_frame(ENDED, b"")
        _flush_viewers(self._viewers)
        for viewer in list(self._viewers):
            viewer.close()
        for handle in (self._listener.fileno(), self._master):
            self._poll_loop.unregister(handle)
        self._listener.close()
        os.close(self._master)
        os.close(self.handle)
        with suppress(OSError):
            os.unlink(os.path.join(self._folder, SOCKET_NAME))

    def type_keys(self, keys: bytes) -> None:
        """Type into the terminal. What does not fit is dropped: an agent that does not read must not block."""
        self._keys += keys[: MAX_TYPED_BYTES - len(self._keys)]
        self._handle_event()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size. A new viewer needs the whole screen, which an agent redraws only when the size changes: if it
        is the same as before, another size is set until there is output.
        """
        size = max(1, rows), max(2, columns)
        self._due = size if size == self._size else None
        self._size = size
        self._set_size(size[0], size[1] - (self._due is not None))

    def _set_size(self, rows: int, columns: int) -> None:
        """Set the size; signal an agent that did not take this as its controlling terminal."""
        group = 0
        with suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            group = os.tcgetpgrp(self._master)
        if not group:
            signal_processes(list_descendants({os.getpid()}), signal.SIGWINCH)

    def read_history(self) -> bytes:
        return bytes(self._past[-KEPT_BYTES:])

    def remove_viewer(self, viewer: _Viewer) -> None:
        self._viewers.remove(viewer)

    def _handle_event(self) -> None:
        if self._keys:
            self._write_keys()
        self._read_output()

    def _write_keys(self) -> None:
        try:
            del self._keys[: os.write(self._master, self._keys)]
        except BlockingIOError:
            pass
        except OSError:
            self._keys.clear()
        self._poll_loop.register(self._master, self._handle_event, writing=bool(self._keys))

    def _read_output(self) -> bool:
        """Read one chunk; False if there is nothing to read."""
        try:
            data = os.read(self._master, MAX_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # EIO: its session has ended
            self._poll_loop.unregister(self._master)
            return False
        if self._due is not None:
            size, self._due = self._due, None
            self._set_size(*size)
        self._past += data
        if len(self._past) > 2 * KEPT_BYTES:
            del self._past[:-KEPT_BYTES]
        for viewer in list(self._viewers):
            viewer.send_frame(SHOWN, data)
        return bool(data)

    def _accept_viewer(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._viewers) >= MAX_VIEWERS:
            connection.close()
            return
        viewer = _Viewer(connection, self, self._poll_loop)
        self._viewers.append(viewer)
        viewer.send_frame(PAST, self.read_history())


class _Viewer:
    """One connected person or program, which may type."""

    def __init__(self, connection: socket.socket, terminal: AgentTerminal, poll_loop: PollLoop) -> None:
        self.connection = connection
        self.unread: list[bytes] = []  # frames; the first may be sent in part
        self._behind = 0
        self._terminal = terminal
        self._poll_loop = poll_loop
        self._got = bytearray()
        connection.setblocking(False)
        poll_loop.register(connection.fileno(), self._handle_event)

    def send_frame(self, kind: bytes, content: bytes) -> None:
        if self.connection.fileno() < 0:
            return
        if self._behind > MAX_UNREAD_BYTES:
            self._drop_unread()
        self.unread.append(build_frame(kind, content))
        self._behind += len(self.unread[-1])
        self.flush()

    def _drop_unread(self) -> None:
        del self.unread[1:]
        self.unread.append(build_frame(PAST, self._terminal.read_history()))
        self._behind = sum(map(len, self.unread))

    def flush(self) -> None:
        try:
            while self.unread:
                sent = self.connection.send(self.unread[0])
                self._behind -= sent
                self.unread[:1] = [self.unread[0][sent:]] if sent < len(self.unread[0]) else []
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._poll_loop.register(self.connection.fileno(), self._handle_event, writing=bool(self.unread))

    def close(self) -> None:
        if self.connection.fileno() >= 0:
            self._poll_loop.unregister(self.connection.fileno())
            self.connection.close()
            self._terminal.remove_viewer(self)

    def _handle_event(self) -> None:
        if self.unread:
            self.flush()
        if self.connection.fileno() >= 0:
            self._read_frames()

    def _read_frames(self) -> None:
        try:
            data = self.connection.recv(MAX_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._got += data
        while self._take_frame():
            pass

    def _take_frame(self) -> bool:
        if len(self._got) < HEADER.size:
            return False
        kind, length = HEADER.unpack_from(self._got)
        if length > MAX_CONTENT_BYTES or kind not in (KEYS, SIZE) or (kind == SIZE and length != WINDOW_SIZE.size):
            self.close()
            return False
        if len(self._got) < HEADER.size + length:
            return False
        content = bytes(self._got[HEADER.size : HEADER.size + length])
        del self._got[: HEADER.size + length]
        if kind == KEYS:
            self._terminal.type_keys(content)
        else:
            self._terminal.resize(*WINDOW_SIZE.unpack(content))
        return True


def _flush_viewers(viewers: list[_Viewer]) -> None:
    give_up = time.monotonic() + CLOSE_TIMEOUT
    while (late := [viewer for viewer in viewers if viewer.unread]) and time.monotonic() < give_up:
        poll = select.poll()
        for viewer in late:
            poll.register(viewer.connection, select.POLLOUT)
        poll.poll(max(0.0, give_up - time.monotonic()) * 1000)
        for viewer in late:
            viewer.flush()


def _open_listener(folder: str) -> socket.socket:
    """Bind through an open folder: a socket path has at most 107 bytes, and a repository may lie deep. The socket
    gets its final name when it listens, so that a connection is always accepted.
    """
    draft = f"{SOCKET_NAME}.draft"
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, draft))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        place = f"/proc/self/fd/{handle}" if os.path.exists("/proc/self/fd") else folder
        listener.bind(f"{place}/{draft}")
        listener.listen(MAX_VIEWERS)
        listener.setblocking(False)
        os.replace(os.path.join(folder, draft), os.path.join(folder, SOCKET_NAME))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
        os.close(handle)
    return listener
