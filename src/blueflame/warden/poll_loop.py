"""Sleep until something happens: a child ended, a signal asks to stop, a socket is ready, or time is up.

The hook server and the terminal register their sockets here, so that the warden needs one thread only. poll() and not
select(): a warden may hold a file descriptor above 1024.

A closed terminal or pipe must not end the warden: an early version died of a BrokenPipe when its parent was killed,
and its agents continued unsupervised.
"""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False  # the typing module alone would cost every attempt some 8 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
WAKING_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


class PollLoop:
    """Woken by signals and registered handles; counts the signals that ask to stop."""

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
        """Call `answer()` in `wait` when the handle is readable (writable) or closed. Call again to change it."""
        self._answers[handle] = answer
        self._poll.register(handle, select.POLLIN * reading | select.POLLOUT * writing)

    def unregister(self, handle: int) -> None:
        """Forget the handle before it is closed; unknown handles are ignored."""
        if self._answers.pop(handle, None) is not None:
            self._poll.unregister(handle)

    def wait(self, seconds: float) -> None:
        """Wait for a signal, a registered handle, or the timeout."""
        ready = dict(self._poll.poll(max(0.0, seconds) * 1000))
        if ready.pop(self._reader, 0):
            signals = os.read(self._reader, 4096)
            self.stops += signals.count(signal.SIGTERM) + signals.count(signal.SIGINT)
        for handle in sorted(ready):
            if handle in self._answers:  # an earlier answer may have unregistered it
                self._answers[handle]()

    def pause(self, seconds: float) -> None:
        """Wait so long, unless a signal asks to stop: any other one, as of a child that has ended, only wakes us."""
        until, stops = time.monotonic() + seconds, self.stops
        while self.stops == stops and (left := until - time.monotonic()) > 0:
            self.wait(left)


def _handle_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wakeup pipe has the signal, but is only written if there is a handler."""


def reset_signals() -> None:
    """Restore the defaults in a child: ignored signals would stay ignored in the agent."""
    signal.set_wakeup_fd(-1)
    for number in (*IGNORED_SIGNALS, *WAKING_SIGNALS, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
