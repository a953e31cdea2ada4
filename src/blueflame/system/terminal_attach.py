"""Connect a person's terminal to an agent's: output is shown here, keys are sent there.

The warden holds the agent's terminal, so nothing here can stop the agent, and Ctrl-C goes to the agent. The person's
terminal is always restored: its modes from before, its screen by escape codes.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import select
import signal
import struct
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from blueflame.model.errors import Refused, WorldError
from blueflame.system.files import read_json_object
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

DETACH_KEYS = re.compile(rb"\x1d|\x1b\[93;5u|\x1b\[27;5;93~")
"""Ctrl-], also as sent by a terminal in an extended keyboard mode."""
INTERRUPT_KEY = b"\x03"
TERMINAL_QUERY = re.compile(
    rb"\x1b\[[>=?]?[0-9;]*c|\x1b\[\??[56]n|\x1b\[\??[0-9;]*\$p|\x1b\[>[0-9]*q|\x1b\[\?u|\x1b\[1[3-9]t|\x1b\[2[01]t"
    rb"|\x1b\][0-9;]*;\?(?:\x07|\x1b\\)|\x1bP[+$]q[^\x1b]*\x1b\\"
)
"""Queries to the terminal. They are removed from earlier output: a reply now would be typed into the agent."""
ALTERNATE_SCREEN = re.compile(rb"\x1b\[\?(?:\d+;)*(?:47|1047|1049)(?:;\d+)*([hl])")
POLL_SECONDS = 0.02  # seconds
STATUS_QUERY, STATUS_REPLY = b"\x1b[5n", b"\x1b[0n"
REPLY_TIMEOUT = 0.5  # seconds for replies of the terminal
MAX_ESCAPE_BYTES = 64  # of an escape code that may be split between blocks

SAVE_TITLE, RESTORE_TITLE = b"\x1b[22;0t", b"\x1b[23;0t"
MAIN_SCREEN = b"\x1b[?1049l"
RESET_MODES = (
    b"\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?2048l"
    b"\x1b[?2031l\x1b[<u\x1b[>4m\x1b[?1l\x1b>\x1b[?7h\x1b7\x1b[r\x1b8\x1b[4l\x1b(B\x0f\x1b[0m\x1b[0 q\x1b[?25h"
)
"""No mouse, no bracketed paste, plain keys, full scroll region, default characters, a visible cursor."""


class DetachReason(StrEnum):
    """Why the connection ended."""

    ENDED = "ended"  # the agent ended
    LEFT = "left"  # the person detached with Ctrl-]
    CLOSED = "closed"  # the person's terminal was closed
    LOST = "lost"  # the warden is gone, or dropped a slow viewer


def has_terminal(folder: Path) -> bool:
    """Whether it runs and can be attached to."""
    return (folder / SOCKET_NAME).exists()


def has_requested_terminal(folder: Path) -> bool:
    """Whether its launch file asks for a terminal; it may not have started yet, or have ended."""
    return bool(read_json_object(folder / "launch.json").get("terminal"))


async def wait_for_terminal(folder: Path) -> bool:
    """Wait for an agent that is about to start; False if it ends without a terminal."""
    while not has_terminal(folder):
        if (folder / "outcome.json").exists():
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


async def attach_terminal(folder: Path, *, read_only: bool = False, keyboard: int = 0, screen: int = 1) -> DetachReason:
    """Return when the agent ends or the person leaves. Raise WorldError if the agent's terminal does not answer."""
    if not (os.isatty(keyboard) and os.isatty(screen)):
        raise Refused("not a terminal: run it in a terminal, without a pipe")
    reader, writer = await _connect_to_agent(folder)
    relay = _Relay(writer, keyboard, screen, read_only=read_only)
    try:
        with _enter_raw_mode(relay), _handle_signals(relay), _restore_screen(relay):
            return await _wait_for_first(relay.left, asyncio.ensure_future(_relay_output(reader, relay)))
    finally:
        writer.close()


async def _connect_to_agent(folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect through an open folder: a socket path has at most 107 bytes, and a repository may lie deep."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            through = Path(f"/proc/self/fd/{handle}")
            return await asyncio.open_unix_connection(str((through if through.exists() else folder) / SOCKET_NAME))
        finally:
            os.close(handle)
    except OSError as e:
        raise WorldError(
            f"cannot connect to the terminal at {folder / SOCKET_NAME}: {e.strerror}; has it ended?"
        ) from e


async def _wait_for_first(left: asyncio.Future[DetachReason], listening: asyncio.Future[DetachReason]) -> DetachReason:
    try:
        await asyncio.wait({left, listening}, return_when=asyncio.FIRST_COMPLETED)
        return left.result() if left.done() else listening.result()
    finally:
        listening.cancel()
        left.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def _relay_output(reader: asyncio.StreamReader, relay: _Relay) -> DetachReason:
    try:
        while True:
            kind, length = HEADER.unpack(await reader.readexactly(HEADER.size))
            content = await reader.readexactly(length)
            if kind == ENDED:
                return DetachReason.ENDED
            if kind == PAST:
                relay.show_output(TERMINAL_QUERY.sub(b"", content))
            elif kind == SHOWN:
                relay.show_output(content)
    except (asyncio.IncompleteReadError, ConnectionError):
        return DetachReason.LOST


class _Relay:
    """Both directions, and the state that is needed to restore the screen."""

    def __init__(self, writer: asyncio.StreamWriter, keyboard: int, screen: int, *, read_only: bool) -> None:
        self.left: asyncio.Future[DetachReason] = asyncio.get_running_loop().create_future()
        self.on_other_screen = False
        self.was_asked = False  # the agent has queried the terminal: a reply may still arrive
        self.screen = screen
        self.keyboard = keyboard
        self._writer = writer
        self._read_only = read_only
        self._tail = b""

    def show_output(self, data: bytes) -> None:
        for mark in ALTERNATE_SCREEN.finditer(self._tail + data):
            self.on_other_screen = mark[1] == b"h"
        self.was_asked = self.was_asked or TERMINAL_QUERY.search(self._tail + data) is not None
        self._tail = data[-MAX_ESCAPE_BYTES:]
        if not _write_screen(self.screen, data):
            self._detach(DetachReason.CLOSED)

    def read_keys(self) -> None:
        try:
            keys = os.read(self.keyboard, 4096)
        except OSError:  # EIO: the terminal was closed
            keys = b""
        if not keys:
            self._detach(DetachReason.CLOSED)
            return
        detach = DETACH_KEYS.search(keys)
        if self._read_only:
            if detach or INTERRUPT_KEY in keys:
                self._detach(DetachReason.LEFT)
            return
        self._send_frame(KEYS, keys[: detach.start()] if detach else keys)
        if detach:
            self._detach(DetachReason.LEFT)

    def send_size(self) -> None:
        if self._read_only:
            return
        with suppress(OSError):
            rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(self.screen, termios.TIOCGWINSZ, bytes(8)))
            if rows and columns:
                self._send_frame(SIZE, WINDOW_SIZE.pack(rows, columns))

    def _send_frame(self, kind: bytes, content: bytes) -> None:
        if content:
            assert len(content) <= MAX_CONTENT_BYTES
            self._writer.write(build_frame(kind, content))

    def _detach(self, reason: DetachReason) -> None:
        if not self.left.done():
            self.left.set_result(reason)


@contextmanager
def _enter_raw_mode(relay: _Relay) -> Iterator[None]:
    """Pass every key, Ctrl-C and Ctrl-Z too; restore the modes and discard unread input afterwards."""
    before = termios.tcgetattr(relay.keyboard)
    try:
        _set_raw_mode(relay.keyboard)
        yield
    finally:
        if relay.was_asked:
            _drain_replies(relay)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(relay.keyboard, termios.TCSANOW, before)
            termios.tcflush(relay.keyboard, termios.TCIFLUSH)
        with suppress(termios.error):
            termios.tcdrain(relay.screen)


def _drain_replies(relay: _Relay) -> None:
    """Read replies to the agent's queries, which would be typed into the shell: a terminal answers in order."""
    _write_screen(relay.screen, STATUS_QUERY)
    replies, give_up = b"", time.monotonic() + REPLY_TIMEOUT
    while STATUS_REPLY not in replies and (left := give_up - time.monotonic()) > 0:
        if select.select([relay.keyboard], [], [], left)[0]:
            try:
                keys = os.read(relay.keyboard, 4096)
            except OSError:
                return
            if not keys:
                return
            replies += keys


def _set_raw_mode(keyboard: int) -> None:
    with suppress(termios.error):
        tty.setraw(keyboard, termios.TCSANOW)


@contextmanager
def _restore_screen(relay: _Relay) -> Iterator[None]:
    _write_screen(relay.screen, SAVE_TITLE)
    try:
        yield
    finally:
        _write_screen(
            relay.screen, RESET_MODES + (MAIN_SCREEN if relay.on_other_screen else b"") + RESTORE_TITLE + b"\r\n"
        )


@contextmanager
def _handle_signals(relay: _Relay) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def continue_after_stop() -> None:
        _set_raw_mode(relay.keyboard)  # the shell has set its own modes meanwhile
        relay.send_size()

    loop.add_reader(relay.keyboard, relay.read_keys)
    loop.add_signal_handler(signal.SIGWINCH, relay.send_size)
    loop.add_signal_handler(signal.SIGCONT, continue_after_stop)
    relay.send_size()
    try:
        yield
    finally:
        loop.remove_reader(relay.keyboard)
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGCONT)


def _write_screen(screen: int, data: bytes) -> bool:
    """Write all of it; False if the screen is gone."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(screen, rest) :]
        except BlockingIOError:  # left non-blocking by an earlier program
            os.set_blocking(screen, True)
        except OSError:
            return False
    return True
