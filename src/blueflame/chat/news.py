"""What happened, in a chat: replies to requests, ends of sessions, status messages, a digest after quiet hours."""

from __future__ import annotations

import asyncio

from blueflame.chat.gate_message import MAX_TEXT_UNITS
from blueflame.chat.outbox import Outbox, Outgoing
from blueflame.chat.reactions import read_note
from blueflame.chat.reports import REQUEST, STATUS, report_event
from blueflame.chat.setup import ChatSetup
from blueflame.house.follower import SessionFollower, list_followed
from blueflame.house.notifications import is_urgent
from blueflame.journal.house import HouseJournal
from blueflame.model.errors import BlueFlameError
from blueflame.model.event import GateOpened
from blueflame.text.notifications import BUDGET, FAILED, HEADLINES, PARKED, build_notifications
from blueflame.text.utf16 import cut_to_units

SEEN, HELD, FOLLOWED = "seen", "held:", "followed:"
FACT_TOPICS = (FAILED, PARKED, BUDGET)  # gates and ends have messages of their own


class NewsReporter:
    def __init__(self, setup: ChatSetup, outbox: Outbox, journal: HouseJournal) -> None:
        self._setup = setup
        self._outbox = outbox
        self._journal = journal
        cursors = {
            key.removeprefix(FOLLOWED): int(seq) for key, seq in outbox.notes.items() if key.startswith(FOLLOWED)
        }
        self._follower = SessionFollower(setup.reader.configs, cursors, setup.clock.now())
        self._shown: dict[str, tuple[str, float]] = {}  # text of each status message, and when it was changed

    async def report(self) -> float | None:
        """Post what is new; return when there is more to do even if nothing happens."""
        quiet_end = self._setup.find_quiet_end()
        self._report_events(quiet=quiet_end is not None)
        await self._report_facts(quiet=quiet_end is not None)
        if quiet_end is None:
            self._send_digest()
        due = [await self._show_status(), quiet_end]
        return min((at for at in due if at is not None), default=None)

    def _report_events(self, *, quiet: bool) -> None:
        if SEEN not in self._outbox.notes:  # the first start: what happened before was of no chat
            self._outbox.post(notes={SEEN: str(self._journal.find_last())})
        for entry in self._journal.read_after(int(self._outbox.notes[SEEN])):
            notes, chats = self._outbox.notes, self._setup.list_owner_chats()
            report = report_event(entry, notes, describe_wait=self._setup.describe_wait, others=chats)
            held = {f"{HELD}{each.chat}:{entry.n:09d}": each.text for each in report.later} if quiet else {}
            messages = report.now + (() if quiet else report.later)
            self._outbox.post(messages, {**report.notes, **held, SEEN: str(entry.n)})

    async def _report_facts(self, *, quiet: bool) -> None:
        """Post what happened in sessions, to the owners; what is not urgent waits for the end of quiet hours."""
        names = list_followed(self._journal, self._setup.list_gates())
        for news in await asyncio.to_thread(self._follower.read, names):
            seq = None if news.session.ended else str(news.session.seq)
            facts = [
                (f"{news.name}:{entry.seq}:{n}", notice)
                for entry in news.new
                if not isinstance(entry.event, GateOpened)  # has a message of its own
                for n, notice in enumerate(build_notifications(news.session, [entry]))
                if notice.topic in FACT_TOPICS
            ]
            messages: list[Outgoing] = []
            notes: dict[str, str | None] = {f"{FOLLOWED}{news.name}": seq}
            for key, notice in facts:
                text = f"{news.name.repository} {HEADLINES[notice.topic]}: {notice.words}, {news.name.session}"
                for chat in self._setup.list_owner_chats():
                    if quiet and not is_urgent(notice):
                        notes[f"{HELD}{chat}:{key}"] = text
                    else:
                        messages.append(Outgoing(key=f"fact:{key}:{chat}", chat=chat, text=text))
            self._outbox.post(messages, notes)

    def _send_digest(self) -> None:
        held = sorted(key for key in self._outbox.notes if key.startswith(HELD))
        for chat in sorted({int(key.split(":")[1]) for key in held}):
            keys = [key for key in held if int(key.split(":")[1]) == chat]
            lines = "\n".join(f"- {self._outbox.notes[key]}" for key in keys)
            text = cut_to_units(f"While it was quiet:\n{lines}", MAX_TEXT_UNITS)
            self._outbox.post([Outgoing(key=f"digest:{keys[0]}", chat=chat, text=text)], dict.fromkeys(keys))

    async def _show_status(self) -> float | None:
        """Change the status message of each session, seldom and only if its text is another."""
        requests = [key for key in self._outbox.notes if key.startswith(REQUEST)]
        due = [await self._show_one(key.removeprefix(REQUEST)) for key in requests]
        return min((at for at in due if at is not None), default=None)

    async def _show_one(self, request: str) -> float | None:
        note, sent = read_note(self._outbox.notes, REQUEST + request), self._outbox.sent.get(STATUS + request)
        ended = bool(note.get("ended"))
        text, at = self._shown.get(request, ("", 0.0))
        now, every = self._setup.clock.now(), self._setup.telegram.status_every
        if sent is None or (0 <= now - at < every and not ended):
            is_over = ended and not self._outbox.find_waiting(STATUS + request)
            self._outbox.post(notes={REQUEST + request: None} if is_over else {})
            return at + every if sent is not None else None
        shown = await self._describe_session(str(note["repository"]), str(note["session"]))
        edits = []
        if shown and shown != text and (ended or not self._outbox.find_waiting(f"edit:{request}:")):
            self._shown[request] = (shown, now)
            edits = [Outgoing(key=f"edit:{request}:{now:.0f}", chat=sent.chat, text=shown, edits=sent.message)]
        if not ended:
            self._outbox.post(edits)
            return now + every
        self._outbox.post(edits, {REQUEST + request: None}, drops=[STATUS + request])
        self._shown.pop(request, None)
        return None

    async def _describe_session(self, repository: str, session: str) -> str:
        try:
            return await asyncio.to_thread(self._setup.reader.describe_session, repository, session)
        except BlueFlameError:
            return ""
