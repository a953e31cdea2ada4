"""A bot of a house with a repository whose session waits at a gate, against the stand-in for the Bot API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from blueflame.chat.sessions import SessionReader
from blueflame.chat.setup import ChatSetup
from blueflame.chat.telegram import TelegramChat
from blueflame.cli.gates.view import draw_gate
from blueflame.house.desk import HouseDesk
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.event import Event
from blueflame.model.house.arrival import Arrival, IncomingAnswer
from blueflame.model.house.event import HouseEvent, OpenGate
from blueflame.model.settings.house import HouseSettings
from blueflame.system.layout import StatePaths
from blueflame.testing.bot_api import BotApi, ShownMessage
from blueflame.testing.clock import FakeClock
from support.command_line import configure
from support.recorded_session import ID, Story

T = TypeVar("T")
ANNA, BEN, CARL, STRANGER, GROUP = 11, 22, 33, 99, -100
PEOPLE = {
    "anna": {"trust": "owner", "telegram": ANNA},
    "ben": {"trust": "owner", "telegram": BEN, "order": 2},
    "carl": {"telegram": CARL},
}
NOON = 1_794_916_800.0  # 2026-11-17 12:00 UTC
PATIENCE = 30.0


class ChatHouse:
    """The house of the tests: its real journal, a repository `shop` with a recorded session, a clock that waits."""

    def __init__(self, repo: Path, folder: Path, api: BotApi, **settings: Any) -> None:  # noqa: ANN401 (house.yaml)
        self.repo, self.folder, self.api = repo, folder, api
        given = {"people": PEOPLE, "repositories": {"shop": {"path": str(repo)}}, **settings}
        given["telegram"] = {"api": api.url, "chats": {}, **given.get("telegram", {})}
        self.settings = HouseSettings.model_validate(given)
        self.clock = FakeClock(NOON)
        self.config = configure(repo)
        self.story = Story()
        StatePaths(repo).state.mkdir(exist_ok=True)
        self.journal = HouseJournal.open(folder / "house.db")
        self.desk = HouseDesk(self.journal, lambda: None)
        self.waits: Mapping[str, str] = {}
        self._written = 0

    def write_session(self) -> None:
        """Write the new events of the story to the journal of the repository."""
        with Journal.open(StatePaths(self.repo).journal) as journal:
            for entry in self.story.recorded[self._written :]:
                journal.append(ID, entry.seq - 1, [entry.event], entry.at)
        self._written = len(self.story.recorded)

    def show_gates(self, *more: OpenGate) -> None:
        """Show the open gates of the session to the chat, as the house does."""
        self.write_session()
        gates = [] if self.story.session.ended else self.story.session.open_gates.values()
        self.desk.gates = (*(self.find_open(gate.id) for gate in gates), *more)
        self.desk.announce()

    def find_open(self, gate: str) -> OpenGate:
        found = self.story.session.gates[gate]
        return OpenGate(repository="shop", session=ID, request="", gate=found, opened_at=NOON)

    def tell(self, *events: Event) -> None:
        """Let something happen in the session."""
        self.story.tell(*events)
        self.show_gates()

    def record(self, stream: str, *events: HouseEvent) -> None:
        self.journal.append([(stream, event) for event in events], self.clock.now())
        self.desk.announce()

    @property
    def arrivals(self) -> list[Arrival]:
        return [each.arrival for each in self.journal.list_waiting()]

    @property
    def answers(self) -> list[IncomingAnswer]:
        return [each for each in self.arrivals if isinstance(each, IncomingAnswer)]

    def build_chat(self) -> TelegramChat:
        reader = SessionReader(configs={"shop": self.config}, journal=self.journal, draw_gate=draw_gate)
        setup = ChatSetup(
            settings=self.settings,
            token=self.api.token,
            lock=self.folder / "bot.lock",
            reader=reader,
            describe_wait=lambda request: self.waits.get(request, ""),
            describe_house=lambda asked: f"The {asked} of the house.",
            list_gates=lambda: self.desk.gates,
            clock=self.clock,
        )
        return TelegramChat(setup)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the bot for the block; cancelled as a process is killed: without a last word."""
        task = asyncio.create_task(self.build_chat().run(self.desk))
        try:
            yield
        finally:
            failed = task.done()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert not failed, "the bot ended by itself"

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for something while the clock goes on a little."""
        for _ in range(int(PATIENCE / 0.005)):
            if holds():
                return
            self.clock.advance(0.25)
            await asyncio.sleep(0.005)
        shown = [f"{each.chat}: {each.text!r} {each.buttons}" for each in self.api.messages]
        raise TimeoutError("\n".join(["not in time; shown:", *shown, *map(repr, self.arrivals)]))

    async def until_started(self) -> None:
        """Wait until the chat reports what happens from now on."""
        await self.until(lambda: "seen" in self.journal.read_notes("telegram"))

    async def until_taken(self, update: int) -> None:
        """Wait until an update is committed."""
        await self.until(lambda: int(self.desk.read_cursor("telegram").partition(" ")[0] or 0) > update)

    async def until_done(self, update: int) -> None:
        """Wait until an update is committed and the person who tapped has a reply."""
        await self.until_taken(max(update, self.api.add_update({})))

    async def until_shown(self, chat: int, words: str) -> ShownMessage:
        found: list[ShownMessage] = []

        def look() -> bool:
            found[:] = [each for each in self.api.list_shown(chat) if words in each.text]
            return bool(found)

        await self.until(look)
        return found[-1]


def play(story: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(2 * PATIENCE):
            return await story

    return asyncio.run(limited())


def list_texts(messages: Sequence[ShownMessage]) -> list[str]:
    return [each.text for each in messages]
