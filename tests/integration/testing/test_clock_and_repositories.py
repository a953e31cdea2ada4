from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.testing import FakeClock, create_throwaway_repository


def test_time_passes_only_by_advance() -> None:
    clock = FakeClock(100.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 2.5)


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    async def story() -> list[str]:
        clock, woken = FakeClock(), []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(name)

        async with asyncio.TaskGroup() as group:
            for name, seconds in [("late", 20.0), ("early", 10.0), ("at once", 0.0)]:
                group.create_task(sleeper(name, seconds))
            await asyncio.sleep(0)
            assert clock.next_deadline == clock.now() + 10
            clock.advance(10)
            await asyncio.sleep(0)
            assert "late" not in woken
            clock.advance(100)
        assert clock.next_deadline is None
        return woken

    assert asyncio.run(story()) == ["at once", "early", "late"]


def test_a_sleeper_can_be_cancelled() -> None:
    async def story() -> None:
        clock = FakeClock()
        task = asyncio.create_task(clock.sleep(5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        clock.advance(10)

    asyncio.run(story())


def test_a_throwaway_repository_has_one_commit_with_the_files(tmp_path: Path, git: Callable[..., str]) -> None:
    repo = create_throwaway_repository(tmp_path / "мой repo", {"a b.txt": "x\n", "src/ключ.py": "y = 1\n"})
    assert git(repo, "ls-tree", "-r", "-z", "--name-only", "main").split("\0")[:-1] == ["a b.txt", "src/ключ.py"]
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "rev-list", "--count", "main").strip() == "1"


def test_a_throwaway_repository_may_be_empty(tmp_path: Path, git: Callable[..., str]) -> None:
    repo = create_throwaway_repository(tmp_path / "empty", {})
    assert git(repo, "rev-list", "--count", "main").strip() == "1"
