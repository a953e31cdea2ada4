"""Ctrl-C at the two moments where Python's own handling would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def put_off() -> Iterator[Callable[[], None]]:
    """Nobody is interrupted until `let_in` is called: a child started meanwhile is in safe hands by then.

    An exception raised within Popen would lose the only handle of a child that already runs.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _ours_to_set() or not callable(before):
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


@contextmanager
def left_to_the_child() -> Iterator[Callable[[], None]]:
    """First a handler that does nothing, which a child does not inherit: it must hear the interrupt.

    Once the child is there, `turn_away`: ignored for good, since even a handler that does nothing wakes an asyncio
    loop, which then runs its own.
    """
    if not _ours_to_set():
        yield lambda: None
        return
    numbers = (signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}

    def turn_away() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    try:
        yield turn_away
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _ours_to_set() -> bool:
    """Python lets only the main thread touch signals, and interrupts only that one."""
    return threading.current_thread() is threading.main_thread()
