"""What the bot has to send, durably: a message waits here until Telegram has it.

Messages of a chat go out in their order. A chat that Telegram asks us to leave alone waits, and only that chat. A
message that was sent just before a crash is sent again: a person would rather read a question twice than never.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Protocol

from blueflame.chat.client import Button, ChatClosed, MessageRefused, RateLimited, TelegramClient, TelegramFailed
from blueflame.intake.source import Clock
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.text.utf16 import cut_to_units

MAX_TEXT_UNITS = 4096
CHAT_PAUSE_SECONDS = 1.0  # about one message a second is allowed in a chat
MAX_BACKOFF_SECONDS = 60.0
MAX_MISSED = 20  # messages that wait for a person who has blocked the bot; older ones are dropped
STOP_SECONDS = 5.0  # how long an orderly stop waits for a message that is being sent
OUT, SENT = "out:", "sent:"


class NoteStore(Protocol):
    """Small durable facts by key, written all or none; None removes one."""

    def read_notes(self, source: str) -> Mapping[str, str]: ...
    def write_notes(self, source: str, notes: Mapping[str, str | None]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    key: str  # the same key is the same message
    chat: int
    text: str
    buttons: tuple[tuple[str, str], ...] = ()
    reply_to: int | None = None
    after: str = ""  # replies to the message with this key
    edits: int | None = None  # changes this message instead
    silent: bool = False
    asks_reply: bool = False
    fixed: tuple[int, int] | None = None
    file: str = ""  # a file with this name; `text` tells the reader of files which
    kept: bool = False  # its number is needed later


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    chat: int
    message: int
    text: str
    fixed: tuple[int, int] | None = None


NOT_NEEDED = "No answer needed any more."
NoteWriter = Callable[[Mapping[str, str | None]], None]
Reporter = Callable[[str], None]
FileReader = Callable[[str], Awaitable[bytes]]
"""Reads a file that is to be sent, by what the message says about it; b"" if it does not exist any more."""


class Outbox:
    def __init__(self, source: str, store: NoteStore, clock: Clock, read_file: FileReader, warn: Reporter) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self._read_file = read_file
        self._warn = warn
        notes = store.read_notes(source)
        self._waiting = {key: _read_outgoing(value) for key, value in sorted(notes.items()) if key.startswith(OUT)}
        self.sent = {
            key.removeprefix(SENT): Sent(**json.loads(value)) for key, value in notes.items() if key.startswith(SENT)
        }
        self.notes = {key: value for key, value in notes.items() if not key.startswith((OUT, SENT))}
        self._last = max((int(key.split(":")[1]) for key in self._waiting), default=0)
        self._free_at: dict[int, float] = {}  # by the monotonic clock
        self.closed: set[int] = set()  # chats that refuse the bot; tried again when one writes, or after a restart
        self._refused: set[str] = set()  # keys of messages that Telegram does not take; tried again after a restart
        self._changed = asyncio.Event()

    def has(self, key: str) -> bool:
        return key in self.sent or key in self._refused or any(each.key == key for each in self._waiting.values())

    def find_waiting(self, prefix: str) -> list[Outgoing]:
        return [each for each in self._waiting.values() if each.key.startswith(prefix)]

    def post(
        self,
        messages: Iterable[Outgoing] = (),
        notes: Mapping[str, str | None] | None = None,
        *,
        drops: Iterable[str] = (),
        write: NoteWriter | None = None,
    ) -> None:
        """Keep messages and notes, and forget messages by their keys, in one transaction.

        A message that is known by its key is not sent again. `write` is given all of it to write with what it belongs
        to.
        """
        new: dict[str, Outgoing] = {}
        for message in messages:
            if not self.has(message.key) and all(message.key != each.key for each in new.values()):
                self._last += 1
                new[f"{OUT}{self._last:09d}"] = message
        names = set(drops)
        gone = [row for row, each in self._waiting.items() if each.key in names]
        for chat in {each.chat for each in new.values() if self._is_away(each.chat)}:
            gone += [row for row, each in self._waiting.items() if each.chat == chat and row not in gone][:-MAX_MISSED]
        known = sorted(key for key in names if key in self.sent)
        changed = {**(notes or {}), **dict.fromkeys([*gone, *(SENT + key for key in known)])}
        changed |= {row: json.dumps(asdict(message)) for row, message in new.items()}
        if changed or write is not None:
            (write or self._write)(changed)
        for key, value in (notes or {}).items():
            if value is None:
                self.notes.pop(key, None)
            else:
                self.notes[key] = value
        for row in gone:
            del self._waiting[row]
        for key in known:
            del self.sent[key]
        self._waiting.update(new)
        if new:
            self._changed.set()

    def note_sent(self, key: str, sent: Sent) -> None:
        """Remember a message that was sent, although a crash kept us from noting it then."""
        self._write({SENT + key: json.dumps(asdict(sent))})
        self.sent[key] = sent

    def _write(self, notes: Mapping[str, str | None]) -> None:
        self._store.write_notes(self._source, notes)

    async def keep_sending(self, client: TelegramClient) -> None:
        """Send what waits, each chat on its own, until cancelled."""
        senders: dict[int, asyncio.Task[None]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    chats = {each.chat for each in self._waiting.values() if not self._is_away(each.chat)}
                    for chat in sorted(chats):
                        if chat not in senders or senders[chat].done():
                            senders[chat] = group.create_task(self._send_all(client, chat))
                    await self._changed.wait()
        finally:
            senders.clear()

    async def _send_all(self, client: TelegramClient, chat: int) -> None:
        backoff = 1.0
        while (found := self._find_next(chat)) is not None:
            await self._clock.sleep(max(self._free_at.get(chat, 0.0) - self._clock.monotonic(), 0.0))
            if self._find_next(chat) != found:
                continue  # it was dropped meanwhile
            try:
                number = await self._send_whole(client, found)
            except RateLimited as error:
                self._free_at[chat] = self._clock.monotonic() + error.seconds
            except ChatClosed as error:
                self.closed.add(chat)
                self._warn(f"chat {chat}: {error}")
                if not self._is_away(chat):
                    self._settle(found, None)
            except MessageRefused as error:
                self._warn(f"a message to chat {chat} was left out: {error}")
                self._refused.add(found[1].key)
                self._settle(found, None)
            except TelegramFailed as error:
                self._warn(str(error))
                self._free_at[chat] = self._clock.monotonic() + backoff
                backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
            else:
                backoff = 1.0
                self._free_at[chat] = self._clock.monotonic() + CHAT_PAUSE_SECONDS
                self._settle(found, number)
        self._changed.set()  # what was posted while this ended

    async def _send_whole(self, client: TelegramClient, entry: tuple[str, Outgoing]) -> int | None:
        """Send, and note what Telegram has taken even if the house is stopped meanwhile: it would be sent again."""
        sending = asyncio.ensure_future(self._send(client, entry[1]))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            with suppress(TimeoutError, WorldError):
                async with asyncio.timeout(STOP_SECONDS):
                    self._settle(entry, await sending)
            raise

    def _is_away(self, chat: int) -> bool:
        """Whether it is a person who has blocked the bot: what they missed is sent when they write again."""
        return chat > 0 and chat in self.closed

    def reopen(self, chat: int) -> None:
        if chat in self.closed:
            self.closed.discard(chat)
            self._changed.set()

    def _find_next(self, chat: int) -> tuple[str, Outgoing] | None:
        if self._is_away(chat):
            return None
        return next(((key, each) for key, each in self._waiting.items() if each.chat == chat), None)

    async def _send(self, client: TelegramClient, message: Outgoing) -> int | None:
        buttons = [Button(*each) for each in message.buttons]
        text = cut_to_units(message.text, MAX_TEXT_UNITS)
        replied = self.sent[message.after].message if message.after in self.sent else message.reply_to
        if message.edits is not None:
            await client.edit(message.chat, message.edits, text, buttons=buttons, fixed=message.fixed)
            return None
        if message.file:
            if content := await self._read_file(message.text):
                await client.send_file(message.chat, message.file, content, reply_to=replied)
            return None
        return await client.send(
            message.chat,
            text,
            buttons=buttons,
            reply_to=replied,
            silent=message.silent,
            asks_reply=message.asks_reply,
            fixed=message.fixed,
        )

    def _settle(self, entry: tuple[str, Outgoing], number: int | None) -> None:
        row, message = entry
        if row not in self._waiting:  # it was dropped while it was sent
            if number is not None and message.buttons:
                text = f"{NOT_NEEDED}\n\n{message.text}"
                self.post([Outgoing(key=f"late:{message.key}", chat=message.chat, text=text, edits=number)])
            return
        notes: dict[str, str | None] = {row: None}
        if message.kept and number is not None:
            sent = Sent(chat=message.chat, message=number, text=message.text, fixed=message.fixed)
            notes[SENT + message.key] = json.dumps(asdict(sent))
            self.sent[message.key] = sent
        self._write(notes)
        del self._waiting[row]


def _read_outgoing(text: str) -> Outgoing:
    found = Outgoing(**json.loads(text))
    fixed = tuple(found.fixed) if found.fixed else None
    return replace(found, buttons=tuple((label, data) for label, data in found.buttons), fixed=fixed)  # type: ignore[arg-type] # two numbers
