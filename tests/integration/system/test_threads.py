"""Threads that are there from the start, and a limit on processes that leaves no room for them."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from blueflame.model.errors import WorldError
from blueflame.system import threads
from blueflame.system.threads import open_thread_pool, run_pooled, share_result

LIMITED = """
import threading
from blueflame.model.errors import WorldError
from blueflame.system import threads

start, started = threading.Thread.start, []

def refuse(thread):
    if len(started) == 5:
        raise RuntimeError("can't start new thread")
    started.append(thread)
    start(thread)

threading.Thread.start = refuse
try:
    threads.open_thread_pool()
except WorldError as e:
    print(e)
"""


def test_all_threads_run_before_the_first_is_used() -> None:
    before = threading.active_count()
    with open_thread_pool() as pool:
        there = threading.active_count() - before
        wait([pool.submit(sum, (1, 2)) for _ in range(50)])
        assert threading.active_count() - before <= there


def test_a_loop_ends_without_a_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that dies before it has reported its start, for want of memory, would be waited for without end."""

    async def work() -> int:
        pool = open_thread_pool()
        asyncio.get_running_loop().set_default_executor(pool)
        monkeypatch.setattr(threading.Thread, "start", lambda _thread: pytest.fail("one more thread"))
        return await asyncio.to_thread(sum, (1, 2))

    assert run_pooled(work()) == 3


def test_threads_that_end_before_they_are_ready_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory a thread may start and fail at once."""
    monkeypatch.setattr(threads, "START_SECONDS", 0.05)
    monkeypatch.setattr(threads, "_wait_for_all", lambda _ready: None)
    with pytest.raises(WorldError, match="they do not run"):
        open_thread_pool()


def test_a_limit_on_processes_is_named_and_nothing_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=60, check=True)
    assert "can't start new thread" in done.stdout
    assert "raise 'ulimit -u'" in done.stdout


def test_too_little_address_space_is_refused_before_a_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python waits for ever for the start of a thread that had no memory for it."""
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (600 << 20, 600 << 20))
    with pytest.raises(WorldError, match=r"limited to 600 MB.* raise it to 1,400 MB \('ulimit -v 1433600'\)"):
        open_thread_pool()


def test_too_few_processes_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    used = threads.count_threads(os.getuid())
    assert used >= threading.active_count()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(threads, "count_threads", lambda _user: 30)
    rlimits = {resource.RLIMIT_NPROC: (100, 100)}
    monkeypatch.setattr(resource, "getrlimit", lambda what: rlimits.get(what, (resource.RLIM_INFINITY,) * 2))
    with pytest.raises(WorldError, match=r"100 processes leaves room for 70.*'ulimit -u 130'"):
        open_thread_pool()


def test_a_shared_result_is_computed_once_for_all_threads() -> None:
    both, calls = threading.Barrier(2), list[int]()

    def compute() -> int:
        calls.append(1)
        return len(calls)

    get = share_result(compute)
    with ThreadPoolExecutor(2) as pool:
        found = [each.result() for each in [pool.submit(lambda: (both.wait(), get())[1]) for _ in range(2)]]
    assert (found, calls) == ([1, 1], [1])
