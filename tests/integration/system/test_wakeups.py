from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from blueflame.model.errors import WorldError
from blueflame.system.wakeups import send_wakeup, watch_wakeups


async def _wait_for(hints: AsyncIterator[set[str]], folder: Path, name: str) -> set[str]:
    """Touch until it is seen: the watch may begin at any time before the first pulse."""
    async for names in hints:
        if name in names:
            return names
        send_wakeup(folder, name)
    raise AssertionError("the watch ended")


@pytest.mark.parametrize("polling", [False, True])
def test_a_touched_name_is_seen(tmp_path: Path, polling: bool) -> None:
    folder = tmp_path / "мои signals"

    async def story() -> None:
        hints = watch_wakeups(folder, pulse=0.05, polling=polling)
        seen = await asyncio.wait_for(_wait_for(hints, folder, "inbox"), 30)
        assert seen == {"inbox"}

    asyncio.run(story())
    assert (folder / "inbox").exists()


def test_a_silent_folder_still_says_look_now_and_then(tmp_path: Path) -> None:
    async def story() -> set[str]:
        return await asyncio.wait_for(anext(watch_wakeups(tmp_path, pulse=0.01)), 30)

    assert asyncio.run(story()) == set()


def test_a_watch_can_be_cancelled(tmp_path: Path) -> None:
    async def forever() -> None:
        async for _ in watch_wakeups(tmp_path, pulse=0.05):
            started.set()

    async def story() -> None:
        task = asyncio.create_task(forever())
        await asyncio.wait_for(started.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    started = asyncio.Event()
    asyncio.run(story())


def test_touching_makes_the_folder(tmp_path: Path) -> None:
    send_wakeup(tmp_path / "a b" / "signals", "inbox")
    send_wakeup(tmp_path / "a b" / "signals", "inbox")
    assert [entry.name for entry in (tmp_path / "a b" / "signals").iterdir()] == ["inbox"]


@pytest.mark.parametrize("name", ["../escape", "a/b", "", ".", "a\0b", "é"])
def test_a_name_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorldError, match="cannot name a signal"):
        send_wakeup(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldError, match="cannot signal through"):
        send_wakeup(tmp_path / "file" / "signals", "inbox")

    async def story() -> None:
        await anext(watch_wakeups(tmp_path / "file" / "signals"))

    with pytest.raises(WorldError, match="cannot watch"):
        asyncio.run(story())
