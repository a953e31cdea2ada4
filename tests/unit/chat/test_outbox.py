"""What the bot has to send waits until Telegram has it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from blueflame.chat.client import TelegramClient
from blueflame.chat.outbox import Outbox, Outgoing
from blueflame.system.clock import SystemClock


class Notes:
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def read_notes(self, _source: str) -> Mapping[str, str]:
        return dict(self.kept)

    def write_notes(self, _source: str, notes: Mapping[str, str | None]) -> None:
        for key, value in notes.items():
            self.kept.pop(key, None)
            self.kept |= {key: value} if value is not None else {}


class SlowClient:
    """Telegram has the message, and its response is on the way."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.has_message, self.responds = asyncio.Event(), asyncio.Event()

    async def send(self, _chat: int, text: str, **_more: object) -> int:
        self.sent.append(text)
        self.has_message.set()
        await self.responds.wait()
        return len(self.sent)


async def read_nothing(_text: str) -> bytes:
    return b""


def test_a_message_that_is_being_sent_when_the_house_is_stopped_is_not_sent_again() -> None:
    async def story() -> tuple[list[str], dict[str, str]]:
        notes, client = Notes(), SlowClient()
        outbox = Outbox("telegram", notes, SystemClock(), read_nothing, lambda _text: None)
        outbox.post([Outgoing(key="a", chat=1, text="one")])
        sending = asyncio.create_task(outbox.keep_sending(cast("TelegramClient", client)))
        await client.has_message.wait()
        sending.cancel()
        await asyncio.sleep(0)
        client.responds.set()
        with suppress(asyncio.CancelledError):
            await sending
        return client.sent, notes.kept

    assert asyncio.run(story()) == (["one"], {})
