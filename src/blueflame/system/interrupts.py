"""Ctrl-C at the moment where Python's own handling would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def defer_interrupts() -> Iterator[Callable[[], None]]:
    """Nobody is interrupted until `let_in` is called: a child started meanwhile is in safe hands by then.

    An exception raised within Popen would lose the only handle of a child that already runs.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _is_main_thread() or not callable(before):
        yield lambda: None
        return
    pending: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pending.append(number))

    def let_in() -> None:
        signal.signal(signal.SIGINT, before)
        if pending:
            signal.raise_signal(pending.pop())

    try:
        yield let_in
    finally:
        signal.signal(signal.SIGINT, before)


def _is_main_thread() -> bool:
    """Python lets only the main thread touch signals, and interrupts only that one."""
    return threading.current_thread() is threading.main_thread()
