"""The warden sleeps until something happens: a child ended, somebody asks it to stop, or it is time to look around.

It is deaf to a closed terminal and a closed pipe. A prototype that was not died of a BrokenPipe whenever its parent had
been killed, and its agents went on with nobody watching.
"""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False  # the typing module alone would cost every attempt some 8 ms
if TYPE_CHECKING:
    from types import FrameType

DEAF_TO = (signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
RINGS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


class Bell:
    """Rung by signals; remembers how often it was asked to stop."""

    __slots__ = ("_reader", "_writer", "stops")

    def __init__(self) -> None:
        self.stops = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        for number in DEAF_TO:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in RINGS:
            signal.signal(number, _heard)

    def wait(self, seconds: float) -> None:
        """Until rung or until the time is over."""
        ready, _, _ = select.select([self._reader], [], [], max(0.0, seconds))
        if ready:
            rung = os.read(self._reader, 4096)
            self.stops += rung.count(signal.SIGTERM) + rung.count(signal.SIGINT)


def _heard(number: int, frame: FrameType | None) -> None:
    """The wakeup pipe says it all; a handler must exist for the pipe to be written."""


def forget_signals() -> None:
    """In a child before it becomes the agent: what we ignore would otherwise be ignored there, too."""
    signal.set_wakeup_fd(-1)
    for number in (*DEAF_TO, *RINGS, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
