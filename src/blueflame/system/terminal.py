"""The person's terminal: read typed lines, and run an editor or a pager in it.

It stays in line mode, so there is nothing to restore after a cancel or a crash.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from blueflame.model.errors import BlueFlameError, ProcessFailed
from blueflame.model.exit_codes import ExitCode


class TerminalGone(BlueFlameError):
    """End of input: the terminal was closed, or Ctrl-D. The question stays open."""

    exit_code = ExitCode.STOPPED


def is_interactive() -> bool:
    """Whether both input and output are a terminal."""
    return os.isatty(0) and os.isatty(1)


class Keyboard:
    """Lines from a terminal. Waiting can be cancelled; another terminal may answer first."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._typed = b""

    async def read_line(self) -> str:
        while b"\n" not in self._typed:
            await self._wait_readable()
            self._typed += self._read_typed()
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    def discard_typed(self) -> None:
        """Discard what was typed before the question was shown."""
        self._typed = b""
        with suppress(termios.error):  # not a terminal
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def _read_typed(self) -> bytes:
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # EIO: the terminal was closed
            data = b""
        if not data:
            raise TerminalGone(
                "the terminal was closed at a question: the question stays open; run 'blueflame resume' to answer it"
            )
        return data

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)


def find_pager() -> list[str]:
    """Return $PAGER, or less with colours that exits if the text fits on one screen."""
    chosen = shlex.split(os.environ.get("PAGER", "")) or ["less"]
    return [*chosen, "-RFX"] if Path(chosen[0]).name == "less" else chosen


def find_editor() -> list[str]:
    """Return $VISUAL or $EDITOR with their arguments, else nano or vi."""
    chosen = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if chosen:
        return shlex.split(chosen)
    found = next((name for name in ("nano", "vi") if shutil.which(name)), None)
    if found is None:
        raise ProcessFailed("no editor found: set $EDITOR, for example EDITOR=vim")
    return [found]


async def run_in_terminal(argv: Sequence[str], *, cwd: Path) -> int:
    """Run a program in the terminal while the session continues; return its exit code.

    When cancelled it still waits: an editor in use cannot be taken away.
    """
    with _start_without_interrupts(argv, cwd) as child:
        ended = asyncio.ensure_future(asyncio.to_thread(child.wait))
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            await ended
            raise


@contextmanager
def _start_without_interrupts(argv: Sequence[str], cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the program; until it ends, Ctrl-C is for it and not for the session.

    While it starts, interrupts go to an empty handler: an ignored signal would be inherited, a handled one is not. The
    event loop must not be woken, or it would call its own handler. Afterwards they are ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield _start_program(argv, cwd)
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        wakeup = signal.set_wakeup_fd(-1)
        try:
            child = _start_program(argv, cwd)
        finally:
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _start_program(argv: Sequence[str], cwd: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, cwd=cwd)
    except OSError as error:
        raise ProcessFailed(
            f"cannot start {argv[0]!r}: {error.strerror}; set $EDITOR or $PAGER to another one"
        ) from error
