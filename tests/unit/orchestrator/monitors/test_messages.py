"""What people write to an agent reaches it, also where it cannot be written at first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from blueflame.model.attempt import SentMessage
from blueflame.model.errors import WorldError
from blueflame.orchestrator.monitors.messages import POLL_SECONDS, carry_messages
from blueflame.testing.clock import FakeClock


class Disk:
    """An engine whose disk is read-only for a while."""

    def __init__(self) -> None:
        self.is_read_only = True
        self.sent: list[str] = []

    def send_messages(self, _attempt: str, texts: Sequence[str]) -> None:
        if self.is_read_only:
            raise WorldError("cannot write messages: Read-only file system")
        self.sent = list(texts)

    def count_read_messages(self, _attempt: str) -> int:
        return 0

    def read_questions(self, _attempt: str) -> list[dict[str, Any]]:
        return []


def test_an_answer_that_cannot_be_written_is_written_later() -> None:
    clock, disk = FakeClock(), Disk()
    context: Any = SimpleNamespace(engine=disk, clock=clock)
    record = SimpleNamespace(messages=[SentMessage(text="red", by="Ада", at=1.0)], questions=0)
    session: Any = SimpleNamespace(attempts={"a": record})

    async def play() -> None:
        carrying = asyncio.create_task(carry_messages(context, session, "a", lambda _events: None))
        await asyncio.sleep(0)
        disk.is_read_only = False
        clock.advance(POLL_SECONDS)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        carrying.cancel()
        with suppress(asyncio.CancelledError):
            await carrying

    asyncio.run(play())
    assert "red" in disk.sent[0]
