"""The person's terminal: lines typed at it, and lending it to an editor or a pager.

The terminal stays in its ordinary line mode, so there is nothing to restore: not after a cancel, not after a crash.
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
    """End of input: the person closed the terminal or typed Ctrl-D. The question stays open."""

    exit_code = ExitCode.STOPPED


def is_interactive() -> bool:
    """Somebody can be asked: both what is typed and what is shown are a terminal."""
    return os.isatty(0) and os.isatty(1)


class Keyboard:
    """Lines from a terminal, one at a time. Waiting for one can be cancelled; another terminal may answer first."""

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
        """Drop what was typed before the question was on the screen: it cannot have been an answer to it."""
        self._typed = b""
        with suppress(termios.error):  # not a terminal: nothing is waiting in one
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def _read_typed(self) -> bytes:
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # EIO: the terminal was closed
            data = b""
        if not data:
            raise TerminalGone("the terminal was closed at a question; it stays open: 'blueflame resume' asks it again")
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
    """$PAGER, or less with colours, no leafing for what fits on a page, and the text left on the screen."""
    chosen = shlex.split(os.environ.get("PAGER", "")) or ["less"]
    return [*chosen, "-RFX"] if Path(chosen[0]).name == "less" else chosen


def find_editor() -> list[str]:
    """$VISUAL or $EDITOR with their arguments, else what is there."""
    chosen = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if chosen:
        return shlex.split(chosen)
    found = next((name for name in ("nano", "vi") if shutil.which(name)), None)
    if found is None:
        raise ProcessFailed("there is no editor: set $EDITOR to the one you like, for example EDITOR=vim")
    return [found]


async def run_in_terminal(argv: Sequence[str], *, cwd: Path) -> int:
    """Give the terminal to a program until it ends, while the session goes on; gives its exit code.

    When cancelled it still waits: an editor that a person types in cannot be taken away.
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
    """Ctrl-C reaches the whole foreground group; until the program ends it is meant for it and not for the session.

    While it starts, interrupts go to a handler that does nothing: an ignored signal would be inherited, a handled one
    is not. The event loop must not be woken meanwhile, for it would call its own handler. Then they are ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield _start_program(argv, cwd)
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        bell = signal.set_wakeup_fd(-1)
        try:
            child = _start_program(argv, cwd)
        finally:
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
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
