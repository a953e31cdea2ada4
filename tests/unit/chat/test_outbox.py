"""What the bot has to send waits until Telegram has it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from blueflame.chat.client import ChatClosed, MessageRefused, TelegramClient
from blueflame.chat.outbox import MAX_MISSED, Outbox, Outgoing
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


class InstantClock(SystemClock):
    async def sleep(self, _seconds: float) -> None:
        await asyncio.sleep(0)


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


class BlockedClient:
    """A person who has blocked the bot until they write again."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_blocked = True

    async def send(self, _chat: int, text: str, **_more: object) -> int:
        if self.is_blocked:
            raise ChatClosed("Forbidden: bot was blocked by the user")
        self.sent.append(text)
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


def test_a_person_who_blocked_the_bot_reads_what_they_missed_when_they_write_again() -> None:
    async def story() -> list[str]:
        notes, client = Notes(), BlockedClient()
        outbox = Outbox("telegram", notes, InstantClock(), read_nothing, lambda _text: None)
        sending = asyncio.create_task(outbox.keep_sending(cast("TelegramClient", client)))
        outbox.post([Outgoing(key="0", chat=1, text="0")])
        while not outbox.closed:
            await asyncio.sleep(0)
        for n in range(1, MAX_MISSED + 2):
            outbox.post([Outgoing(key=str(n), chat=1, text=str(n))])
        client.is_blocked = False
        outbox.reopen(1)
        while outbox.find_waiting(""):
            await asyncio.sleep(0)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        return client.sent

    sent = asyncio.run(story())
    assert sent == [str(n) for n in range(MAX_MISSED + 2)][-len(sent) :]
    assert len(sent) == MAX_MISSED + 1


class RefusingClient:
    def __init__(self) -> None:
        self.calls = 0

    async def send(self, _chat: int, _text: str, **_more: object) -> int:
        self.calls += 1
        raise MessageRefused("Bad Request: BUTTON_DATA_INVALID")


def test_a_message_that_telegram_refuses_is_warned_of_and_not_sent_again() -> None:
    """A gate is asked as long as no message of it is known: it would be sent for ever."""

    async def story() -> tuple[int, int]:
        warnings: list[str] = []
        client = RefusingClient()
        outbox = Outbox("telegram", Notes(), InstantClock(), read_nothing, warnings.append)
        sending = asyncio.create_task(outbox.keep_sending(cast("TelegramClient", client)))
        for _tick in range(3):
            outbox.post([Outgoing(key="ask:1", chat=1, text="one", kept=True)])
            while outbox.find_waiting("ask:1"):
                await asyncio.sleep(0)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        return client.calls, len(warnings)

    assert asyncio.run(story()) == (1, 1)
