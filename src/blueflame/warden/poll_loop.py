"""Sleep until something happens: a child ended, a signal asks to stop, a socket is ready, or time is up.

The hook server and the terminal register their sockets here, so that the warden needs one thread only. poll() and not
select(): a warden may hold a file descriptor above 1024.

A closed terminal or pipe must not end the warden: an early version died of a BrokenPipe when its parent was killed,
and its agents went on unsupervised.
"""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False  # the typing module alone would cost every attempt some 8 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
WAKING_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


class PollLoop:
    """Rung by signals and by the sockets it serves; remembers how often it was asked to stop."""

    __slots__ = ("_answers", "_poll", "_reader", "_writer", "stops")

    def __init__(self) -> None:
        self.stops = 0
        self._answers: dict[int, Callable[[], object]] = {}
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)
        for number in IGNORED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in WAKING_SIGNALS:
            signal.signal(number, _handle_signal)

    def register(
        self, handle: int, answer: Callable[[], object], *, reading: bool = True, writing: bool = False
    ) -> None:
        """`answer()` is called in `wait` whenever the file can be read (written), or has hung up. Again to change."""
        self._answers[handle] = answer
        self._poll.register(handle, select.POLLIN * reading | select.POLLOUT * writing)

    def unregister(self, handle: int) -> None:
        """Before the file is closed; one that is not served may be forgotten, too."""
        if self._answers.pop(handle, None) is not None:
            self._poll.unregister(handle)

    def wait(self, seconds: float) -> None:
        """Until rung, until somebody served has been answered, or until the time is over."""
        ready = dict(self._poll.poll(max(0.0, seconds) * 1000))
        if ready.pop(self._reader, 0):
            rung = os.read(self._reader, 4096)
            self.stops += rung.count(signal.SIGTERM) + rung.count(signal.SIGINT)
        for handle in sorted(ready):
            if handle in self._answers:  # an answer before it may have forgotten it
                self._answers[handle]()


def _handle_signal(number: int, frame: FrameType | None) -> None:
    """The wakeup pipe says it all; a handler must exist for the pipe to be written."""


def reset_signals() -> None:
    """In a child before it becomes the agent: what we ignore would otherwise be ignored there, too."""
    signal.set_wakeup_fd(-1)
    for number in (*IGNORED_SIGNALS, *WAKING_SIGNALS, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
