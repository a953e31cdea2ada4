"""The bot of a house: people ask for work and answer gates in Telegram.

What arrives is committed with the offset before more is asked for; what is to be sent waits in the outbox until
Telegram has it. Nothing is kept in memory alone: a restart at any moment loses and repeats no answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from blueflame.chat.asking import GateAsker
from blueflame.chat.client import MessageRefused, RateLimited, TelegramClient, TelegramFailed, Update, open_client
from blueflame.chat.gate_message import MAX_TEXT_UNITS
from blueflame.chat.new_bot import list_bot_changes
from blueflame.chat.news import NewsReporter
from blueflame.chat.outbox import Outbox, Outgoing
from blueflame.chat.reactions import (
    MAX_TOAST_CHARS,
    PAIR,
    SOURCE,
    ChatContext,
    Reaction,
    find_allowed,
    react_to_message,
    react_to_tap,
)
from blueflame.chat.setup import ChatSetup
from blueflame.chat.updates import ButtonTap, ChatMessage, find_offset, format_cursor, read_update
from blueflame.dispatch.people import find_answer_problem
from blueflame.house.desk import HouseDesk
from blueflame.intake.source import SourceProbe
from blueflame.model.errors import BlueFlameError, find_first_error
from blueflame.system.flock import format_lock_note, hold_lock
from blueflame.text.sanitize import shorten_line
from blueflame.text.utf16 import cut_to_units

LOG = logging.getLogger(__name__)
MAX_BACKOFF_SECONDS = 60.0
MAX_STRANGERS = 1_000  # that are logged: a crowd must not fill the disk
TICK_SECONDS = 30.0  # how often is looked at what is due, if nothing changes


def find_token_lock(folder: Path, token: str) -> Path:
    """The lock of a bot on this machine: its name says nothing about the token."""
    return folder / f"telegram-{hashlib.sha256(token.encode()).hexdigest()[:16]}.lock"


class TelegramChat:
    """A face of the house."""

    name = SOURCE

    def __init__(self, setup: ChatSetup) -> None:
        self._setup = setup
        self._strangers: set[str] = set()

    async def run(self, desk: HouseDesk) -> None:
        """Talk until cancelled. Raises Refused if another process of this machine polls the bot."""
        with hold_lock(self._setup.lock, format_lock_note("telegram")):
            async with open_client(self._setup.token, self._setup.telegram.api) as client:
                try:
                    await TelegramTalk(self._setup, desk, client, self._strangers).run()
                except ExceptionGroup as group:
                    raise find_first_error(group) from None

    async def probe(self) -> SourceProbe:
        """Try the token and the chats, without receiving anything: for doctor."""
        people = {each.telegram: name for name, each in self._setup.settings.people.items() if each.telegram}
        try:
            async with open_client(self._setup.token, self._setup.telegram.api) as client:
                name = await client.read_name()
                wrong = [
                    text for chat in {**self._setup.telegram.chats, **people} if (text := await _try(client, chat))
                ]
        except BlueFlameError as error:
            return SourceProbe(False, str(error))
        if not people:
            return SourceProbe(False, f"@{name} knows no person: find a number with 'blueflame telegram pair'")
        return SourceProbe(not wrong, "; ".join(wrong) or f"@{name} serves {', '.join(people.values())}")


async def _try(client: TelegramClient, chat: int) -> str:
    try:
        await client.check_chat(chat)
    except MessageRefused as error:
        return f"chat {chat}: {error}; write to the bot there first"
    return ""


class TelegramTalk:
    """One life of the bot, from a start to its end."""

    def __init__(self, setup: ChatSetup, desk: HouseDesk, client: TelegramClient, strangers: set[str]) -> None:
        self._setup = replace(setup, list_gates=lambda: desk.gates)
        self._desk = desk
        self._client = client
        self._strangers = strangers  # that were reported
        self._bot = ""
        self._number = setup.token.partition(":")[0]  # of the bot
        journal = desk.journal
        changes = list_bot_changes(journal.read_notes(SOURCE), journal.read_cursor(SOURCE), self._number)
        journal.write_notes(SOURCE, changes)
        self._outbox = Outbox(SOURCE, journal, setup.clock, self._read_file, self._warn)
        self._asker = GateAsker(self._setup, self._outbox)
        self._news = NewsReporter(self._setup, self._outbox, journal)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._outbox.keep_sending(self._client))
            group.create_task(self._keep_reporting())
            group.create_task(self._keep_receiving())

    def _warn(self, text: str) -> None:
        self._desk.warn(SOURCE, text)

    async def _read_file(self, text: str) -> bytes:
        return await self._asker.read_file(text)

    async def _keep_reporting(self) -> None:
        while True:
            changed = asyncio.ensure_future(self._desk.changed())
            due = [await self._news.report(), await self._asker.ask_people()]
            now = self._setup.clock.now()
            first = min((at for at in due if at is not None), default=now + TICK_SECONDS)
            tick = asyncio.ensure_future(self._setup.clock.sleep(min(max(first - now, 0.05), TICK_SECONDS)))
            try:
                await asyncio.wait({changed, tick}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                tick.cancel()

    async def _keep_receiving(self) -> None:
        backoff = 1.0
        while True:
            try:
                self._bot = self._bot or await self._client.read_name()
                offset = find_offset(self._desk.read_cursor(SOURCE), self._number, self._setup.clock.now())
                updates = await self._client.receive(offset)
            except RateLimited as error:
                await self._setup.clock.sleep(error.seconds)
                continue
            except TelegramFailed as error:
                self._warn(str(error))
                await self._setup.clock.sleep(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
                continue
            backoff = 1.0
            for update in updates:
                await self._take(update)

    async def _take(self, update: Update) -> None:
        """Commit what an update leads to together with the next offset; then end the spinning of a button."""
        found = read_update(f"{self._number}:{update.id}", update.data)
        if found is not None:
            self._outbox.reopen(found.chat)
        reaction = self._react(found)
        if reaction.warning and reaction.warning not in self._strangers and len(self._strangers) < MAX_STRANGERS:
            self._strangers.add(reaction.warning)
            LOG.warning("telegram: %s", reaction.warning)
        messages, notes = list(reaction.messages), dict(reaction.notes)
        if reaction.asked and isinstance(found, ChatMessage):
            await self._add_shown(reaction.asked, found, messages, notes)

        def write(changed: Mapping[str, str | None]) -> None:
            cursor = format_cursor(update.id, self._setup.clock.now(), self._number)
            self._desk.receive(SOURCE, reaction.arrivals, cursor=cursor, notes=changed)

        self._outbox.post(messages, notes, drops=reaction.drops, write=write)
        if isinstance(found, ButtonTap) and not reaction.warning:
            with suppress(TelegramFailed):  # the answer was taken in any case
                await self._client.confirm_tap(found.query, shorten_line(reaction.toast, MAX_TOAST_CHARS))

    def _react(self, found: ChatMessage | ButtonTap | None) -> Reaction:
        if found is None:
            return Reaction()
        if isinstance(found, ButtonTap):
            if find_allowed(found.chat, found.user, self._build_context()) is not None:
                self._asker.adopt_message(found)
            return react_to_tap(found, self._build_context())
        self._read_pair_codes()
        return react_to_message(found, self._build_context())

    def _build_context(self) -> ChatContext:
        return ChatContext(
            settings=self._setup.settings,
            bot=self._bot,
            notes=self._outbox.notes,
            sent=self._outbox.sent,
            now=self._setup.clock.now(),
        )

    def _read_pair_codes(self) -> None:
        """Read the codes again: another process writes them."""
        notes, stored = self._outbox.notes, self._desk.journal.read_notes(SOURCE)
        for key in [key for key in notes if key.startswith(PAIR)]:
            del notes[key]
        notes.update({key: value for key, value in stored.items() if key.startswith(PAIR)})

    async def _add_shown(
        self, asked: str, found: ChatMessage, messages: list[Outgoing], notes: dict[str, str | None]
    ) -> None:
        """Add the reply to a command that shows the state of the house."""
        if asked == "gates":
            sender, people = find_allowed(found.chat, found.user, self._build_context()), self._setup.settings.people
            for each in self._setup.list_gates():
                if sender is not None and not find_answer_problem(people, sender, each.gate.kind):
                    prepared = await self._asker.prepare_ask(each, found.chat, f"{found.chat}:{found.id}")
                    messages += prepared.messages
                    notes |= prepared.notes
            text = "" if messages else "No gate waits for your answer."
        else:
            text = await asyncio.to_thread(self._setup.describe_house, asked)
        if text:
            shown = cut_to_units(text, MAX_TEXT_UNITS)
            messages.append(Outgoing(key=f"reply:{found.id}", chat=found.chat, text=shown, reply_to=found.message))
