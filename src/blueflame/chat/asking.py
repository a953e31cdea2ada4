"""Gates as messages: who is asked when, what buttons mean, and that a message shows who answered."""

from __future__ import annotations

import asyncio
import json
import secrets
from base64 import b32encode
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from blueflame.chat.gate_message import GateMessage, format_button, format_settled, list_tappable
from blueflame.chat.outbox import Outbox, Outgoing, Sent
from blueflame.chat.reactions import BUTTON, PROMPT, SETTLED, build_button_note, build_gate_key, read_note
from blueflame.chat.sessions import list_files
from blueflame.chat.setup import ChatSetup
from blueflame.chat.updates import ButtonTap
from blueflame.dispatch.people import Ask, find_deadline, find_default, is_announced, list_asks
from blueflame.dispatch.quiet_hours import find_quiet_end
from blueflame.model.errors import BlueFlameError
from blueflame.model.house.event import OpenGate
from blueflame.text.format import format_until
from blueflame.text.sanitize import shorten_line

MAX_SETTLED = 300
ASK, REMINDER = "ask:", "remind"


class PreparedAsk(NamedTuple):
    messages: list[Outgoing]
    notes: dict[str, str | None]


class GateAsker:
    def __init__(self, setup: ChatSetup, outbox: Outbox) -> None:
        self._setup = setup
        self._outbox = outbox

    def list_gates(self) -> dict[str, OpenGate]:
        return {build_gate_key(each): each for each in self._setup.list_gates()}

    async def ask_people(self) -> float | None:
        """Post the messages that are due, show which gates are settled; return when the next message is due."""
        due = [await self._ask_about(key, found) for key, found in self.list_gates().items()]
        await self._settle_gates()
        return min((at for at in due if at is not None), default=None)

    async def _ask_about(self, key: str, found: OpenGate) -> float | None:
        if not is_announced(found.gate):
            return None
        hours = self._setup.rules.find_quiet_hours(found.gate.kind)
        if (quiet_end := find_quiet_end(hours, self._setup.clock.now())) is not None:
            return quiet_end  # one that was opened before may be late: the house did not run, or Telegram was away
        since: dict[int, float] = {}  # when each chat is asked
        asks = list_asks(self._setup.rules, found.gate.kind, found.opened_at)
        for (at, is_reminder), due in groupby(asks, key=_find_moment):
            if at > self._setup.clock.now():
                return at
            for chat, people in self._find_chats([each.person for each in due], found).items():
                asked = f"{ASK}{key}:{chat}"
                is_next = since.setdefault(chat, at) < at and not is_reminder  # in a group
                if not is_reminder and not self._outbox.has(asked):
                    self._outbox.post(*await self.prepare_ask(found, chat, str(chat)))
                elif is_reminder or is_next:
                    words = "now you are asked, too." if is_next else "this still waits for an answer."
                    name = f"{ASK}{key}:{REMINDER}:{people[0]}{':next' if is_next else ''}"
                    text = f"{', '.join(people)}: {words} {shorten_line(found.gate.title, 200)}"
                    self._outbox.post([Outgoing(key=name, chat=chat, text=text, after=asked, kept=True)])
        return None

    def _find_chats(self, people: list[str], found: OpenGate) -> dict[int, list[str]]:
        """Who is asked in which chat."""
        chats: dict[int, list[str]] = {}
        for person in people:
            if (chat := self._find_chat(person, found)) is not None:
                chats.setdefault(chat, []).append(person)
        return chats

    def _find_chat(self, person: str, found: OpenGate) -> int | None:
        """The group of the repository, if there is one; else the person's own chat. Not one that refuses the bot."""
        chats = self._setup.telegram.chats
        groups = [chat for chat, each in chats.items() if chat < 0 and each.repository == found.repository]
        places = [*groups, self._setup.settings.people[person].telegram]
        return next((chat for chat in places if chat not in self._outbox.closed), None)

    async def prepare_ask(self, found: OpenGate, chat: int, name: str) -> PreparedAsk:
        """Build the messages of a gate and the notes of its buttons, whose ids say nothing and are valid once."""
        deadline = find_deadline(self._setup.rules, found.gate, found.opened_at)
        default = find_default(self._setup.rules, found.gate)
        until = f"Without an answer{format_until(deadline)}: {default}." if deadline is not None else ""
        built = await asyncio.to_thread(self._setup.reader.build_message, found, until=until)
        buttons = {option.name: _make_button_id() for option in list_tappable(found.gate)}
        notes: dict[str, str | None] = {
            BUTTON + buttons[option.name]: build_button_note(found, option, chat)
            for option in list_tappable(found.gate)
        }
        asked = Outgoing(
            key=f"{ASK}{build_gate_key(found)}:{name}",
            chat=chat,
            text=built.text,
            buttons=tuple((format_button(option), buttons[option.name]) for option in list_tappable(found.gate)),
            fixed=built.fixed,
            kept=True,
        )
        return PreparedAsk([asked, *_list_file_messages(found, built, asked)], notes)

    def adopt_message(self, tap: ButtonTap) -> None:
        """Note the message of a valid button, if a crash kept us from noting it: it is to show who answered, too."""
        gate = read_note(self._outbox.notes, BUTTON + tap.data).get("gate")
        known = {(sent.chat, sent.message) for sent in self._outbox.sent.values()}
        if gate and (tap.chat, tap.message) not in known:
            sent = Sent(chat=tap.chat, message=tap.message, text=tap.text)
            self._outbox.note_sent(f"{ASK}{gate}:{tap.chat}:{tap.message}", sent)

    async def read_file(self, text: str) -> bytes:
        """Read a file that belongs to a gate: `diff KEY` or `evidence KEY`."""
        what, _, key = text.partition(" ")
        found = self.list_gates().get(key)
        if found is None:
            return b""
        try:
            return await asyncio.to_thread(self._setup.reader.read_file, found, what)
        except BlueFlameError as error:
            return f"It cannot be read: {error}\n".encode()

    async def _settle_gates(self) -> None:
        known = [*self._outbox.sent, *(each.key for each in self._outbox.find_waiting(ASK))]
        keys = {name.removeprefix(ASK).partition(":")[0] for name in known if name.startswith(ASK)}
        for key in sorted(keys - set(self.list_gates())):
            repository, session, gate = key.split("/", 2)
            words = await asyncio.to_thread(self._setup.reader.describe_settled, repository, session, gate)
            if words:  # empty: the house has not read it yet
                self._settle_gate(key, words)

    def _list_notes_of(self, key: str) -> list[tuple[str, dict[str, Any]]]:
        """The buttons and open questions for a reason that belong to a gate."""
        named = [name for name in self._outbox.notes if name.startswith((BUTTON, PROMPT))]
        notes = [(name, read_note(self._outbox.notes, name)) for name in named]
        return [(name, note) for name, note in notes if note["gate"] == key]

    def _settle_gate(self, key: str, words: str) -> None:
        """Take the buttons from all messages of a gate, and write above each who answered what."""
        prefix = f"{ASK}{key}:"
        asked = {name: sent for name, sent in self._outbox.sent.items() if name.startswith(prefix)}
        questions = {name: sent for name, sent in asked.items() if not name.startswith(f"{prefix}{REMINDER}:")}
        edits = [_build_settled(f"settled:{name}", sent, words) for name, sent in questions.items()]
        # a button goes; who was asked for a reason reads that it is too late, or it would become a request
        notes = {
            name: json.dumps({**note, "late": words}) if name.startswith(PROMPT) else None
            for name, note in self._list_notes_of(key)
        }
        old = [name for name in self._outbox.notes if name.startswith(SETTLED)]
        notes |= dict.fromkeys(old[: max(len(old) - MAX_SETTLED, 0)])
        notes |= {f"{SETTLED}{sent.chat}:{sent.message}": words for sent in asked.values()}
        waiting = [each.key for each in self._outbox.find_waiting(prefix)]
        self._outbox.post(edits, notes, drops=[*asked, *waiting])


def _find_moment(ask: Ask) -> tuple[float, bool]:
    return ask.at, ask.is_reminder


def _build_settled(key: str, sent: Sent, words: str) -> Outgoing:
    shown = format_settled(sent.text, sent.fixed, words)
    return Outgoing(key=key, chat=sent.chat, text=shown.text, fixed=shown.fixed, edits=sent.message)


def _make_button_id() -> str:
    return "g:" + b32encode(secrets.token_bytes(12)).decode().rstrip("=").lower()


def _list_file_messages(found: OpenGate, built: GateMessage, asked: Outgoing) -> Iterator[Outgoing]:
    for file, what in list_files(found.gate, built):
        text = f"{what} {build_gate_key(found)}"
        key = f"file:{asked.key}:{what}"
        yield Outgoing(key=key, chat=asked.chat, text=text, file=file, after=asked.key, silent=True)
