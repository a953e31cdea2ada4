"""Threads that are there from the start (where processes are limited, a later one could not be started), and what
they share."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from blueflame.model.errors import WorldError
from blueflame.system.process import LIMIT_REACHED

_Result = TypeVar("_Result")

SPARE_THREADS = 4  # that libraries start on their own, some of which end the process when they cannot
START_SECONDS = 60.0
MIN_ADDRESS_MB = 1400  # below that the parser of shell commands (a Go program) does not start, nor do all our threads
MIN_PROCESSES = 100  # with fewer left, agents and their hooks cannot start what they need
FEW_PROCESSES = 10_000  # a higher limit is not looked at: counting takes some milliseconds


def open_thread_pool() -> ThreadPoolExecutor:
    """Open a pool whose threads all run; raise WorldError if that many cannot be started."""
    _check_address_space()
    _check_processes()
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


class PooledLoop(asyncio.SelectorEventLoop):
    """Ends with the threads of its pool, and no further one: the usual loop starts one to wait for them, and waits
    without end when that has no memory."""

    def __init__(self) -> None:
        super().__init__()
        self._pool: ThreadPoolExecutor | None = None

    def set_default_executor(self, executor: ThreadPoolExecutor) -> None:  # type: ignore[override]
        self._pool = executor
        super().set_default_executor(executor)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002
        if self._pool is not None:
            self._pool.shutdown()


def run_pooled(work: Coroutine[object, object, _Result]) -> _Result:
    """As `asyncio.run`, for work that opens a thread pool."""
    with asyncio.Runner(loop_factory=PooledLoop) as runner:
        return runner.run(work)


def share_result(compute: Callable[[], _Result]) -> Callable[[], _Result]:
    """Compute it once, for all threads: `functools.cache` lets those that ask at the same time compute it again."""
    lock, known = threading.Lock(), cache(compute)

    def get() -> _Result:
        with lock:
            return known()

    return get


def _check_address_space() -> None:
    """A thread that has no memory may die before it has reported its start, for which Python waits without end."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit >> 20 < MIN_ADDRESS_MB:
        fix = f"raise it to {MIN_ADDRESS_MB:,} MB ('ulimit -v {MIN_ADDRESS_MB << 10}') or more"
        state = f"the address space is limited to {limit >> 20:,} MB, which is too little"
        raise WorldError(f"{state}: {fix}, then run 'blueflame resume'")


def _check_processes() -> None:
    """The limit is one of the user, and counts threads; it does not hold for root."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit == resource.RLIM_INFINITY or limit > FEW_PROCESSES or os.geteuid() == 0:
        return
    used = count_threads(os.getuid())
    if limit - used < MIN_PROCESSES:
        state = f"the limit of {limit:,} processes leaves room for {max(limit - used, 0):,}, which is too little"
        fix = f"end some, or raise it ('ulimit -u {used + MIN_PROCESSES}' or more)"
        raise WorldError(f"{state}: {fix}, then run 'blueflame resume'")


def count_threads(user: int) -> int:
    """Count the threads of a user; a process that ends meanwhile counts nothing."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == user:
                count += sum(1 for _ in (process / "task").iterdir())
    return count


def _wait_for_all(ready: threading.Barrier) -> None:
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        return
