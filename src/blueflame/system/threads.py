"""Threads that are there from the start: where processes are limited, a later one could not be started."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from blueflame.model.errors import WorldError

SPARE_THREADS = 4  # that libraries start on their own, some of which end the process when they cannot
START_SECONDS = 60.0
LIMIT_REACHED = "the limit on processes is reached: end some, or raise 'ulimit -u' or the limit of the control group"


def open_thread_pool() -> ThreadPoolExecutor:
    """Open a pool whose threads all run; raise WorldError if that many cannot be started."""
    count = min(32, (os.cpu_count() or 1) + 4)
    pool, ready = ThreadPoolExecutor(count), threading.Barrier(count + SPARE_THREADS + 1)
    spares = [threading.Thread(target=_wait_for_all, args=(ready,), daemon=True) for _ in range(SPARE_THREADS)]
    try:
        for spare in spares:
            spare.start()
        for _ in range(count):
            pool.submit(_wait_for_all, ready)
        ready.wait(START_SECONDS)  # a thread without memory may end before it comes to the barrier
    except RuntimeError as e:
        ready.abort()
        pool.shutdown(wait=False, cancel_futures=True)
        why = str(e) or "they do not run"
        raise WorldError(f"cannot start {count + SPARE_THREADS} threads ({why}): {LIMIT_REACHED}") from e
    return pool


def _wait_for_all(ready: threading.Barrier) -> None:
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        return
